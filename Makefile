# Everything happens in .venv in this folder. The first run installs what is needed, later ones need no network.
# Another Python: make demo PYTHON=python3.12. Arguments for pytest: make test ARGS="-k graph".

.SUFFIXES:
.PHONY: help demo test torture check clean
.DEFAULT_GOAL := help

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c '$(NEW_ENOUGH)' 2>/dev/null && { echo "$$python"; break; }; done)
PIP := .venv/bin/python -m pip --disable-pip-version-check install --quiet --quiet
ARGS =

ENGLISH := Who sent Leibniz a diagram of the hexagrams of the Book of Changes?
CHINESE := 毕昇用什么材料做活字？

# Chinese is read and printed as such, whatever the console's locale says.
export PYTHONUTF8 := 1

# An environment that was made in another place, or whose Python is gone, is made anew.
STALE := $(shell test "$$(cat .venv/place 2>/dev/null)" = "$$(pwd)" && .venv/bin/python -c "" 2>/dev/null || \
	rm -f .venv/place .venv/installed .venv/installed-dev)

help:
	@echo "make demo    index the documents in examples/ and ask two questions; needs no key and no model"
	@echo "make test    run the tests (make test ARGS='-k graph' passes -k graph to pytest)"
	@echo "make torture kill, damage, share and starve indexes at length (some 40 minutes; make test does it in short)"
	@echo "make check   look for faults with ruff and mypy"
	@echo "make clean   remove .venv, demo-index and what the tools left behind"

demo: .venv/installed
	@.venv/bin/rag-transformers index examples --out demo-index
	@for question in "$(ENGLISH)" "$(CHINESE)"; do \
		printf '\n$$ rag-transformers query demo-index "%s"\n' "$$question"; \
		.venv/bin/rag-transformers query demo-index "$$question" || exit; \
	done
	@printf '\nThe command is there after: . .venv/bin/activate\n'
	@echo 'A page to look round in:    rag-transformers view demo-index -o graph.html'

test: .venv/installed-dev
	.venv/bin/python -m pytest --numprocesses auto --dist loadfile $(ARGS)

torture: .venv/installed-dev
	RAG_TORTURE=long .venv/bin/python -m pytest tests/torture $(ARGS)

check: .venv/installed-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

clean:
	rm -rf .venv demo-index build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/place:
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed. Install it (Debian, Ubuntu: apt install python3 python3-venv;"; \
		echo "macOS: brew install python), or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; \
		exit 1; } >&2
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: its modules venv and ensurepip are missing."; \
		echo "Install them (Debian, Ubuntu: apt install python3-venv; Fedora: dnf install python3-pip),"; \
		echo "or name another Python: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; \
		exit 1; } >&2
	@"$(PYTHON)" -m venv --clear .venv
	@pwd > $@

.venv/installed: .venv/place pyproject.toml
	@echo "Installing into .venv what rag-transformers needs (once; a few minutes, about 700 MB) ..."
	@$(PIP) --editable .
	@touch $@

.venv/installed-dev: .venv/place pyproject.toml
	@echo "Installing into .venv what rag-transformers and its tests need (once; a few minutes, about 800 MB) ..."
	@$(PIP) --editable ".[dev]"
	@touch .venv/installed $@
