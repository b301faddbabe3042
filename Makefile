# Every target sets up what it needs and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)

.PHONY: install demo test test-portable check lint bench soak fuzz kills docs pictures reproduce clean

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	$(PIP) -e '.[plot,vision]'
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) -e '.[test]' -e ./papers
	touch $@

$(VENV)/.check: $(VENV)/.run
	$(PIP) -e '.[test,check]' -e ./papers
	touch $(VENV)/.test $@

$(VENV)/.bench: $(VENV)/.run
	$(PIP) -e '.[bench]' -e ./papers
	touch $@

$(VENV)/.docs: $(VENV)/.run
	$(PIP) -e '.[docs]'
	touch $@

# What all of docs, lint and test need, by one call of pip instead of three.
install: $(VENV)/.made
	$(PIP) -e '.[test,check,docs]' -e ./papers
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

lint: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Random tasks, data, solvers and faults for so many minutes.
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
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
