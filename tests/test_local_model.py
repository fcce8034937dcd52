"""A real model on this machine, end to end; runs where a GGUF file and a Python with xllamacpp are named.

``RAG_TRANSFORMERS_GGUF`` names the file, ``RAG_TRANSFORMERS_LLAMA_PYTHON`` the Python; docs/models.md says where they
can be had. What a small model says is not foretold: whatever it is must be read, or listed with a reason.
"""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest
from langchain_core.documents import Document

from rag_transformers import GraphIndex
from rag_transformers.models.calls import call, stream
from rag_transformers.models.servers import chat_model

GGUF = os.environ.get("RAG_TRANSFORMERS_GGUF", "")
PYTHON = os.environ.get("RAG_TRANSFORMERS_LLAMA_PYTHON", "")

pytestmark = pytest.mark.skipif(
    not (GGUF and PYTHON), reason="RAG_TRANSFORMERS_GGUF and RAG_TRANSFORMERS_LLAMA_PYTHON name no model"
)

SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
params.n_ctx, params.n_parallel, params.n_predict = 8192, 1, 96
server = xllamacpp.Server(params)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with the model; it ends with its standard input."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PYTHON, "-c", SERVE, GGUF, str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        url = f"http://127.0.0.1:{port}/v1"
        for _ in range(240):
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/models", timeout=5).close()
                break
            assert process.poll() is None, "the server has ended"
            time.sleep(0.5)
        try:
            yield url
        finally:
            process.terminate()


def test_a_call_and_a_stream_give_text_and_usage(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    llm = chat_model("local", server)
    reply = call(llm, "The capital of France is", max_tokens=16)
    assert reply.text
    assert reply.usage.prompt_tokens > 3
    assert reply.usage.completion_tokens
    *pieces, whole = stream(llm, "The capital of France is", max_tokens=16)
    assert "".join(map(str, pieces)).strip() == getattr(whole, "text", None)


@pytest.mark.filterwarnings("ignore:the answer was cut off:UserWarning")
def test_documents_are_indexed_and_asked_and_what_failed_is_listed(
    server: str, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    document = Document("Ada Moss founded Grain Trust in Leeds in 1998. Tom Vale ran it.", metadata={"source": "a"})
    with GraphIndex.open(str(tmp_path), llm=chat_model("local", server, timeout=600), concurrency=1) as index:
        report = index.add([document])
        assert report.usage.calls
        assert report.usage.prompt_tokens > 500, "the server counts the prompt"
        assert report.vertices or report.failed, "what was found is in the graph, or the failure is listed"
        assert all(failure.reason for failure in report.failed)
        answer = index.query("Who founded Grain Trust?", mode="local")
        assert answer.text
        assert answer.usage.calls == 1
