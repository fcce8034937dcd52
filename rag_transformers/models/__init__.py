"""Models: how one is given, called and read, what a failure means, and many calls in one run."""

from rag_transformers.models.calls import acall, astream, call, stream
from rag_transformers.models.given import model_key
from rag_transformers.models.reading import Reply
from rag_transformers.models.servers import chat_model, embedding_model

__all__ = ["Reply", "acall", "astream", "call", "chat_model", "embedding_model", "model_key", "stream"]
