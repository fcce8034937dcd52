"""An agent that answers from an index by its tools, with LangGraph.

    pip install '.[agents]'
    rag-transformers index examples --out demo-index
    export OPENAI_API_KEY=...
    python examples/agent.py demo-index "How are Leibniz and the Book of Changes connected?" --model gpt-4o-mini

``OPENAI_BASE_URL`` names another server than OpenAI's; its model must be able to call tools.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

try:
    from langchain.agents import create_agent
except ImportError:
    sys.exit("error: LangChain's agents are not installed; in the clone: pip install '.[agents]'")
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage

from rag_transformers import GraphIndex, graph_tools

INSTRUCTIONS = (
    "Answer from the tools alone, in the language of the question, and name the sources that they give. "
    "If they hold nothing on it, say so."
)


def make_agent(index: GraphIndex, model: BaseChatModel) -> Any:
    """The agent: a model, the tools of an index, and what it is told."""
    return create_agent(model, graph_tools(index), system_prompt=INSTRUCTIONS)


def steps(agent: Any, question: str) -> Iterator[str]:
    """What the agent does, a line for each step; the last one is its answer."""
    for update in agent.stream({"messages": [("user", question)]}, stream_mode="updates"):
        for message in (message for done in update.values() for message in done["messages"]):
            for call in getattr(message, "tool_calls", ()):
                yield f"> {call['name']} {call['args']}"
            if isinstance(message, ToolMessage) or not getattr(message, "tool_calls", ()):
                yield str(message.text)


def main(arguments: Sequence[str] | None = None, model: BaseChatModel | None = None) -> None:
    """Ask an index one question; ``model`` takes the place of the one that the arguments name."""
    parser = argparse.ArgumentParser(description="An agent that answers from an index by its tools.")
    parser.add_argument("index", help="the folder of the index")
    parser.add_argument("question")
    parser.add_argument("--model", default="gpt-4o-mini", help="a model that calls tools (default gpt-4o-mini)")
    given = parser.parse_args(arguments)
    if model is None:
        if not os.environ.get("OPENAI_API_KEY"):
            parser.exit(2, "error: set OPENAI_API_KEY (any text will do for a server that needs no key)\n")
        from langchain_openai import ChatOpenAI

        model = ChatOpenAI(model=given.model)
    with GraphIndex.open(given.index) as index:
        for line in steps(make_agent(index, model), given.question):
            print(line)


if __name__ == "__main__":
    main()
