# `make demo` runs the main job, `make test` the whole test suite, `make prove` the exploration, the simulations and the
# mutants (`make prove MUTANT=x.patch`: that patch alone), `make chaos` the matrix of faults on real servers. Each installs
# what it needs into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that run the tests, each with servers and a Spark session of its own: much of a run is waiting.
WORKERS ?= 2

.PHONY: demo test lint prove chaos clean

demo: $(VENV)/.demo
	$(BIN)/tpc demo $(ARGS)

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

prove: $(VENV)/.dev
	$(BIN)/python -m tpc.chaos.prove $(if $(MUTANT),--mutant $(MUTANT)) $(ARGS)

chaos: $(VENV)/.demo
	$(BIN)/tpc chaos matrix $(ARGS)

$(VENV)/.demo $(VENV)/.dev: $(VENV)/.%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache
