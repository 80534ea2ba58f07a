# `make demo` runs the main job, `make test` the whole test suite, `make quick` what of it needs no server and no Spark,
# `make prove` the exploration, the simulations and the mutants (`make prove MUTANT=name`: that one of
# tests/mutants alone; ARGS="--first 50000": other simulations), `make chaos` the matrix of faults on real servers, `make bench` the benchmark
# beside other systems (`make bench QUICK=1`: in under ten minutes), `make programs` the programs of docs/examples, killed
# and compared (ARGS="moving_average --seed 7": one of them). Each installs what it needs into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where an environment forbids it, every process that the tests start would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE
# Processes that run the tests, each with servers and a Spark session of its own: much of a run is waiting.
WORKERS ?= 2
# Of the long files whose matter has a command of its own, or seldom moves, `make test` runs those of today
# (`tests/support/drawn_by_day.py`); `make test DAY=` runs all.
DAY ?= --by-day

.PHONY: demo programs test quick lint architecture prove mutants chaos clusters bench clients compat clean

demo: $(VENV)/.demo
	$(BIN)/tpc demo $(ARGS)

programs: $(VENV)/.demo
	$(BIN)/tpc example $(ARGS)

# Whole files, the longest first (`tests/support/longest_files.py`), with the longest told at the end. What has a command of
# its own is here in part: a program of Spark and a quarter of the core of the matrix a day, the core of the clusters.
# A process that has crashed in a test is replaced, at most twice: the new one begins with the same test.
test: $(VENV)/.dev lint
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --max-worker-restart 2 --dist loadfile --no-loadscope-reorder $(DAY) $(ARGS)

# What needs no server, no Spark and little computing, and starts few processes; the tests are dealt out one by one, since
# they share nothing. Of the conformance kits one of each kind, with the deaths at every act of the file sink's alone.
quick: $(VENV)/.dev lint
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m 'not stack and not spark and not slow' $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests of the Kafka sinks on the oldest and the newest kafka-python that they take: some ten minutes each.
clients: $(VENV)/.dev
	for range in "==3.0.4" "<3.1"; do \
	  $(BIN)/python -m pip install --quiet --upgrade --no-deps --target build/kafka-client "kafka-python$$range" || exit 1; \
	  PYTHONPATH=build/kafka-client $(BIN)/python -m pytest tests/sinks/kafka $(ARGS) || exit 1; \
	done

# The built wheel with the lowest and the newest of all it depends on, in every Python and PySpark that can be had: writes
# the table of docs/reference/versions.md. ARGS='--only 3.12' for some rows.
compat: $(VENV)/.dev
	$(BIN)/python -m tests.compat $(ARGS)

# Draws what docs/ARCHITECTURE.md shows of the source.
architecture: $(VENV)/.dev
	$(BIN)/python -m tests.architecture

prove: $(VENV)/.dev
	$(BIN)/python -m tpc.chaos.prove $(if $(MUTANT),--mutant $(MUTANT)) $(ARGS)

# Mistakes that a machine makes in the protocol's code, and which of them the checks notice: drawn by a seed
# (ARGS="--seed 7 --count 100 --room log"), with a score for each room. ARGS="--seed 7 --list" shows them alone.
mutants: $(VENV)/.dev
	$(BIN)/python -m tpc.chaos.prove.machine $(ARGS)

chaos: $(VENV)/.demo
	$(BIN)/tpc chaos matrix $(ARGS)

# Servers as they are run in production: three brokers, a replica promoted, secured ones, older ones (ARGS="--only secured").
# One half of the cases a day; ARGS=--all has both.
clusters: $(VENV)/.dev
	$(BIN)/python -m tests.clusters $(ARGS)

bench: $(VENV)/.bench
	$(BIN)/python -m tests.bench run $(if $(QUICK),--quick) $(ARGS)

$(VENV)/.demo $(VENV)/.dev $(VENV)/.bench: $(VENV)/.%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache
