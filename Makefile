# make demo: the scripted supporters meet simulated people, offline.   make test: everything CI checks.
# make constraints: refresh the pinned versions.                       make clean: forget the environment.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint types imports unit constraints docs wheel clean

demo: $(VENV)/.core
	@$(BIN)/heartloop demo

test: lint types imports unit

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

docs: $(VENV)/.dev  # rewrites the generated parts of the documentation; a test compares them
	$(BIN)/python -m tests.write_docs

wheel: $(VENV)/.dev
	$(BIN)/python -m build --wheel

constraints: $(VENV)/.dev
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --extra inspect --no-header --no-annotate pyproject.toml -o constraints.txt

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "heartloop needs Python 3.11 or newer; set PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e '.[dev,inspect]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) build dist demo src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
