"""CPU seconds to import the library and to print the help, each in a fresh process; median of several runs.

python benchmarks/imports.py [--runs 7]
"""

import argparse
import statistics
import subprocess
import sys

CASES = {
    "python alone": "pass",
    "langchain-core: models, prompts, retrievers": (
        "import langchain_core.language_models, langchain_core.prompts, langchain_core.retrievers"
    ),
    "import rag_transformers": "import rag_transformers",
    "from rag_transformers import GraphIndex, GraphExtractor": (
        "from rag_transformers import GraphIndex, GraphExtractor"
    ),
    "rag-transformers --help": (
        "import contextlib, io\n"
        "from rag_transformers.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main(['--help'])"
    ),
}


def cpu_seconds(code: str) -> float:
    measured = f"{code}\nimport time; print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", measured], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=7)
    runs = options.parse_args().runs
    for name, code in CASES.items():
        cpu_seconds(code)  # warms the disk cache
        print(f"{name:58} {statistics.median(cpu_seconds(code) for _ in range(runs)):.2f} s CPU")


if __name__ == "__main__":
    main()
