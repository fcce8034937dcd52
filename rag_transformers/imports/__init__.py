"""What other systems made, taken over: a graph with its communities and reports, or a whole index.

A source is the output folder of microsoft/graphrag (0.3 to 3), or the working folder or the GraphML file of LightRAG or
nano-graphrag. :func:`read_source` reads it; :func:`import_source` makes an index of it, without asking a model for
anything that the source holds: its documents are split as it split them, and a chunk's extraction is what the source
says of it. All else follows as in every index, so that one can ask, add, delete and sync afterwards.
"""

from rag_transformers.imports.source import ImportedSource, SourceExtractor, import_source, read_source

__all__ = ["ImportedSource", "SourceExtractor", "import_source", "read_source"]
