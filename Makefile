# Every target first makes .venv with the versions of constraints.txt, unless it is up to date.

PYTHON := $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
BIN := .venv/bin
STAMP := .venv/.installed
# Processes for the tests; 0 runs them in one, which is easier to debug.
JOBS ?= auto

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check docs kernels screenshots format clean

help:
	@echo "make demo    explain a prediction about books and their readers; writes to out/"
	@echo "make test    all tests, and the examples in the docstrings"
	@echo "make check   lint, formatting and types"
	@echo "make docs    build the pages into build/docs; a warning or a broken link is an error"
	@echo "make kernels  compile the kernels that come with pagelink, after a change of one"
	@echo "make screenshots  the pictures of the pages in docs/images; needs Chromium"
	@echo "make format  format the code and sort its imports"
	@echo "make clean   remove what the other targets wrote, except .venv"

demo: $(STAMP)
	$(BIN)/pagelink demo --out out

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

check: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Always from scratch: of pages that it does not read again Sphinx repeats no warning.
docs: $(STAMP)
	$(BIN)/python -m sphinx -E -W --keep-going -q -d build/doctrees -b html docs build/docs

kernels: $(STAMP)
	$(BIN)/python -c 'from pagelink.bench.prebuild import main; main()'

screenshots: $(STAMP)
	$(BIN)/python docs/screenshots.py

format: $(STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find pagelink tests -name __pycache__ -prune -exec rm -rf {} +

# torch goes first and by itself: once its pinned version is there, nothing pulls another one.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("pagelink needs Python 3.11 or newer, this is " + sys.version)'
	@echo "Installing into .venv (the first time takes some minutes)"
	@$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[all,dev]'
	@touch $@
