# Each target makes its own environment and installs what it needs: Python 3.11 or newer and a package index are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src include setup.py pyproject.toml -name '*.so' -prune -o -name '*.c' -prune -o -type f -print 2>/dev/null)

.PHONY: test demo bench study figures lint sanitize aarch64 wheels clean

$(VENV)/made:
	PYTHON=$(PYTHON) bash -euc '. tools/lib.sh; install_native_tools; make_venv $(VENV)'
	touch $@

# The package as a user gets it: built into a wheel, not imported from the source tree.
$(VENV)/installed: $(VENV)/made $(SOURCES)
	rm -rf build
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps .
	$(BIN)/python -m pip install --quiet ".[test]"
	touch $@

test: $(VENV)/installed
	$(BIN)/python -m pytest tests

demo: $(VENV)/installed
	$(BIN)/specverify demo

# PEERS=1 measures other packages too, in an environment of their own (1.2 GB); without it their stored figures stay.
ifdef PEERS
bench:
	rm -rf build
	$(PYTHON) -m venv .work/peers
	.work/peers/bin/python -m pip install --quiet ".[bench]" -r benchmarks/peers.txt
	PYTHON=.work/peers/bin/python tools/bench.sh
else
bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet ".[bench]"
	PYTHON=$(BIN)/python tools/bench.sh
endif

# With a real model, for an hour and a quarter. PLAN=quick tries it; LLAMA_WHEEL=FILE saves building llama.cpp.
study:
	PYTHON=$(PYTHON) tools/study.sh

figures: $(VENV)/installed
	$(BIN)/python -m pip install --quiet ".[plot]"
	PYTHON=$(BIN)/python tools/figures.sh

lint:
	PYTHON=$(PYTHON) tools/lint.sh

sanitize:
	PYTHON=$(PYTHON) tools/sanitize.sh

aarch64:
	tools/aarch64.sh

wheels:
	PYTHON=$(PYTHON) tools/wheels.sh

clean:
	rm -rf $(VENV) .work build dist wheelhouse src/*.egg-info src/specverify/*.c src/specverify/*.so
