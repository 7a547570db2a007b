# `make` sets everything up and runs the main job; `make test` sets everything up and passes all tests.
# Needs Python 3.11 or newer with venv, and nothing else: no compiler.
PYTHON ?= python3
VENV   ?= .venv
OUT    ?= runs/quick
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Of the extras, those that the tests and the site use; PyTorch is installed apart, Flower in its own environment.
DEV_EXTRAS := datasets mqtt broker pandas web gym ray tensorboard wandb trackio mlflow

# Folders of tests that take about two minutes together on two cores.
QUICK := schedule theory aggregation fleet radio data paper docs

.PHONY: main test check quick-test check-flower coverage docs dist lock bench clean

main: $(VENV)/installed
	$(BIN)/slotwise reproduce --quick --out $(OUT)

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/pip pyproject.toml
	$(PIP) --editable .
	touch $@

# The CPU build of PyTorch, pinned: other specs may pull gigabytes of GPU libraries. All else in the versions of the lock file.
$(VENV)/installed-dev: $(VENV)/bin/pip pyproject.toml requirements-dev.lock
	$(PIP) torch==2.13.0
	$(PIP) --no-deps --require-hashes --requirement requirements-dev.lock
	$(PIP) --no-deps --editable .
	$(BIN)/python -m pip check
	touch $(VENV)/installed $@

# One worker per core. Tests with real processes and brokers run afterwards, one at a time, and those of Flower in its own
# environment.
test: check
	$(BIN)/python -m pytest -n auto --ignore tests/live
	$(BIN)/python -m pytest tests/live
	$(MAKE) check-flower

quick-test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto -m 'not slow' $(addprefix tests/,$(QUICK))

# All tests once more, in both environments, with a count of the lines and branches they reach.
coverage: $(VENV)/installed-dev $(VENV)-flower/installed
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --ignore tests/live
	$(BIN)/coverage run -m pytest tests/live
	$(VENV)-flower/bin/coverage run -m pytest tests/flower
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

# The site. Warnings are errors; links between pages are checked with it.
docs: $(VENV)/installed-dev
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

# Wheel and sdist, and the wheel of slotwise-device, checked; the sdist and that wheel are installed, each in an environment.
dist: $(VENV)/installed-dev
	rm -rf dist build/dist-venv build/device-venv
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m build --outdir dist --wheel deploy/device
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(PYTHON) -m venv build/dist-venv
	build/dist-venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.tar.gz
	build/dist-venv/bin/python -m pip check
	cd build && dist-venv/bin/slotwise plan --devices 6 --compute-slots 2 --deadline 100
	$(PYTHON) -m venv build/device-venv
	build/device-venv/bin/python -m pip install --quiet --disable-pip-version-check dist/slotwise_device-*.whl
	build/device-venv/bin/python -m pip check
	cd build && device-venv/bin/slotwise-device --version
	ls -l dist

# The exact versions for development, for every Python from 3.11 on. Versions that still fit are kept; for the newest ones
# run `make lock UPGRADE=--upgrade`.
lock: $(VENV)/installed-dev
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --custom-compile-command 'make lock' --group dev $(DEV_EXTRAS:%=--extra %) $(UPGRADE) \
	  --output-file requirements-dev.lock pyproject.toml

# Flower has an environment of its own. It needs older versions of packages that others use in their newest
# (rich, protobuf, typer, fastapi, starlette and uvicorn), so installed beside them it would downgrade what is
# tested there; and amqtt needs a typer with which the command flwr cannot start. dp-accounting, of a recipe, is here
# because it needs an older attrs.
$(VENV)-flower/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1' torch==2.13.0
	$(VENV)-flower/bin/python -m pip install --quiet --disable-pip-version-check --group test \
	  --editable '.[flower,pandas,ray]' flwr-datasets dp-accounting
	$(VENV)-flower/bin/python -m pip check
	touch $@

check-flower: $(VENV)-flower/installed
	SLOTWISE_REQUIRE_FLOWER=1 $(VENV)-flower/bin/python -m pytest tests/flower

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/schedule.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/slotwise bench

clean:
	rm -rf $(VENV) $(VENV)-flower .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* build dist
