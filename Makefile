# Each target makes the virtual environment it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE := reports/results

.PHONY: run report test test-slow test-models test-gpu benchmark lint clean

# The first run takes five to ten minutes on two cores; later ones read the store.
run: $(VENV)/installed
	$(BIN)/python -m simulations.width_collapse --n 256 512 1024 2048 4096 --spectrum full --out $(STORE)

# Runs what is missing of every experiment but the long ones, then writes reports/output/report.html and report.pdf.
report: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -e '.[report,data]'
	$(BIN)/python -m reports --out $(STORE)

test: $(VENV)/installed lint
	$(BIN)/python -m pytest -q

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-slow: $(VENV)/installed
	$(BIN)/python -m pytest -q -m slow

test-models: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -e '.[test,models,torch,data]'
	$(BIN)/python -m pytest -q -m models

test-gpu: $(VENV)/installed
	$(BIN)/python -m pytest -q -m gpu

benchmark: $(VENV)/installed
	$(BIN)/python -m benchmarks.width_collapse
	$(BIN)/python -m benchmarks.softmax_regression

$(VENV)/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rmt needs Python 3.11 or newer; try: make PYTHON=python3.12 run")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
