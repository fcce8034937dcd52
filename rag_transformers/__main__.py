"""The command line as ``python -m rag_transformers``."""

import sys

from rag_transformers.cli import main

if __name__ == "__main__":
    sys.exit(main())
