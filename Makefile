# Every target sets up what it needs and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
NATIVE := CMakeLists.txt $(wildcard native/*)
# The kernels are compiled into src by CMake, so that a change of one recompiles only that one; pip installs the rest.
LOCAL := $(PIP) --no-build-isolation -C editable.mode=inplace -C wheel.cmake=false -C wheel.py-api=py3
BUILD_TOOLS := scikit-build-core nanobind cmake ninja

.PHONY: install demo test test-portable sanitize wheels check lint bench soak fuzz kills docs pictures reproduce clean

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) hatchling editables $(BUILD_TOOLS)
	touch $@

# Without a C++ compiler, the package ziglang serves as one.
CXX_FOUND := $(shell command -v $(firstword $(CXX)) || command -v g++ || command -v clang++)
$(VENV)/.compiler: $(VENV)/.made
ifeq ($(CXX_FOUND),)
	$(PIP) ziglang
endif
	touch $@
ifeq ($(CXX_FOUND),)
export CXX := $(abspath $(BIN))/python -m ziglang c++
endif

$(VENV)/.native: $(VENV)/.compiler $(NATIVE)
	@echo 'Compiling the kernels; this takes about a minute the first time.'
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/native -G Ninja --log-level=ERROR -DPython_EXECUTABLE=$(abspath $(BIN))/python \
		-Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)" -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(abspath src/latentstruct/_native)
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/native -- --quiet
	touch $@

$(VENV)/.run: $(VENV)/.native pyproject.toml $(CONSTRAINTS)
	$(LOCAL) -e '.[plot,vision]'
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(LOCAL) -e '.[test]' -e ./papers
	touch $@

$(VENV)/.check: $(VENV)/.run
	$(LOCAL) -e '.[test,check]' -e ./papers
	touch $(VENV)/.test $@

$(VENV)/.bench: $(VENV)/.run
	$(LOCAL) -e '.[bench]' -e ./papers
	touch $@

$(VENV)/.docs: $(VENV)/.run
	$(LOCAL) -e '.[docs]' -e ./papers
	touch $@

# What all of docs, lint and test need, by one call of pip instead of three.
install: $(VENV)/.native
	$(LOCAL) -e '.[test,check,docs]' -e ./papers
	touch $(VENV)/.run $(VENV)/.test $(VENV)/.check $(VENV)/.docs

demo: $(VENV)/.run
	$(BIN)/latentstruct demo

# In random order; TESTS=--randomly-seed=N repeats one.
test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal $(TESTS)

# As on other processors, beside a busy one: VARIANT is baseline, haswell or skylakex, by default all that run here;
# NUMERICAL=1 takes only tests that compare trainings.
test-portable: $(VENV)/.test
	$(BIN)/python tests/portable.py $(if $(VARIANT),--variant $(VARIANT)) $(if $(SEED),--seed $(SEED)) $(if $(NUMERICAL),--numerical) $(TESTS)

# Tests of kernels and structures with the kernels compiled for AddressSanitizer and UBSan.
sanitize: $(VENV)/.test
	$(BIN)/python tests/sanitize.py $(TESTS)

# One wheel for CPython 3.11 and one for all later versions; the configuration is in pyproject.toml.
wheels: $(VENV)/.made
	$(PIP) cibuildwheel
	$(BIN)/python -m cibuildwheel --output-dir dist

lint: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Random tasks, data, solvers and faults for a number of minutes.
MINUTES ?= 10
soak: $(VENV)/.run
	$(BIN)/python -m soak --minutes $(MINUTES)

# Damaged sparse matrices for all tasks, and damaged files for all readers.
fuzz: $(VENV)/.test
	$(BIN)/python -m fuzz.matrices
	$(BIN)/python -m fuzz

# Trainings that are killed and go on; the part with a full disk needs root.
kills: $(VENV)/.run
	$(BIN)/python -m benchmarks.kills

# Tutorials on real data run where LATENTSTRUCT_DATA names their folder; the others always do.
docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -j auto -W --keep-going -q -b html docs docs/_build/html
	@echo 'open docs/_build/html/index.html'

# The pictures of the README; needs Chromium.
pictures: $(VENV)/.test
	$(BIN)/python docs/readme_pictures.py

reproduce: $(VENV)/.test
	for name in $$($(BIN)/python -c 'from latentstruct_papers import EXPERIMENTS; print(*EXPERIMENTS)'); do \
		$(BIN)/latentstruct reproduce $$name || exit 1; done

clean:
	rm -rf $(VENV) build dist demo results docs/_build docs/generated docs/api/generated docs/auto_examples .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f src/latentstruct/_native/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
