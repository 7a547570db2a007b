# `make` sets everything up and runs the main job; `make test` sets everything up and passes all tests.
# Needs Python 3.11 or newer with venv, and nothing else: no compiler.
PYTHON ?= python3
VENV   ?= .venv
OUT    ?= runs/quick
BIN    := $(VENV)/bin

.PHONY: main test check fast-test check-flower bench clean

main: $(VENV)/installed
	$(BIN)/slotwise reproduce --quick --out $(OUT)

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[research]'
	touch $@

# The CPU build of PyTorch, pinned: other specs may pull gigabytes of GPU libraries.
$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,ray,tensorboard,wandb,trackio,mlflow]'
	touch $@

# One worker per core. Tests with real processes and brokers run afterwards, one at a time.
test: check
	$(BIN)/python -m pytest -n auto --ignore tests/live
	$(BIN)/python -m pytest tests/live

fast-test: check
	$(BIN)/python -m pytest -n auto -m 'not slow'

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# slotwise and Flower in one environment: both must install and import.
check-flower:
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python -m pip install --quiet --disable-pip-version-check '.[research]' flwr
	$(VENV)-flower/bin/python -m pip check
	$(VENV)-flower/bin/python -c 'import flwr, slotwise; print("flwr", flwr.__version__, "and slotwise import")'
	$(VENV)-flower/bin/slotwise --version

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/schedule.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/slotwise bench

clean:
	rm -rf $(VENV) $(VENV)-flower .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
