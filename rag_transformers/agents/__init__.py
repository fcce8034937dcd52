"""An index in the hands of an agent: what its tools say, in short texts with citations."""

from rag_transformers.agents.toolbox import Toolbox

__all__ = ["Toolbox"]
