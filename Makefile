# Every target prepares its own virtual environment: on a fresh machine with Python 3.11+ and make, nothing has to be
# done by hand before any of them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := requirements/dev.lock
# A container's environment may have it; every process of a test would then compile all that it imports once more.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-clients test-slow test-kills pipeline-kills cluster cluster-soak scale new-user check format bench fuzz crash transactions simulation compaction zombies definitions compatibility errors connectors images lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Penstock needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked dependencies into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## the revenue pipeline, exactly once: killed with -9 in the middle, started again, every row counted
	@$(BIN)/python examples/demo.py

test: $(STAMP) ## the test suite (PENSTOCK_REQUIRE_ALL=1: an optional server that is missing is a failure)
	@$(BIN)/python -m pytest -n 3 -o faulthandler_timeout=400 -m "not slow and not kills and not scale and not new_user and not clients and not cluster" $(PYTEST_ARGS)

test-clients: $(STAMP) ## clients and tools of other projects: Java, kafkajs, kcat, kafka-python, aiokafka, librdkafka
	@$(BIN)/python -m pytest -n 2 -o faulthandler_timeout=400 -m "clients and not slow" $(PYTEST_ARGS)

test-slow: $(STAMP) ## slices of the long runs, rebalances that wait for timeouts, weaker guarantees
	@$(BIN)/python -m pytest -n 2 -m slow $(PYTEST_ARGS)

test-kills: $(STAMP) ## a slice of pipeline-kills; two drivers of one pipeline; the demo
	@$(BIN)/python -m pytest -m kills $(PYTEST_ARGS)

pipeline-kills: $(STAMP) ## whole pipelines killed with -9, 40 times for each sink (KILLS_ARGS="--sink topic --seed 1")
	@$(BIN)/python -m tests.pipeline.kills.soak $(KILLS_ARGS)

cluster: $(STAMP) ## three brokers and etcd as processes: one fault at a time, kills, pauses, cuts, power failures
	@$(BIN)/python -m pytest tests/cluster tests/unit/testing -m cluster $(PYTEST_ARGS)

cluster-soak: $(STAMP) ## a hundred faults of a cluster, every record counted (CLUSTER_ARGS="--faults 300 --seed 1")
	@$(BIN)/python -m tests.cluster.soak $(CLUSTER_ARGS)

scale: $(STAMP) ## pipelines on Apache Kafka and a Spark cluster; our source beside Spark's own connector
	@$(BIN)/python -m pytest tests/scale -m scale $(PYTEST_ARGS)
	@$(BIN)/python -m pytest tests/unit/bench -m scale $(PYTEST_ARGS)

new-user: $(STAMP) ## what a new user does: the wheel in a new environment, the documentation's blocks, ten tasks
	@$(BIN)/python -m tests.new_user $(PYTEST_ARGS)

check: $(STAMP) ## formatting, lint, types, import directions, derived files
	@$(BIN)/ruff format --check src tests tools examples
	@$(BIN)/ruff check src tests tools examples
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/derive_definitions.py --check
	@$(BIN)/python tools/derive_compatibility.py --check
	@$(BIN)/python tools/derive_errors.py --check
	@$(BIN)/python tools/derive_connectors.py --check
	@$(BIN)/python tools/draw_diagrams.py --check

format: $(STAMP) ## let ruff rewrite what it can
	@$(BIN)/ruff format src tests tools examples
	@$(BIN)/ruff check --fix src tests tools examples

bench: $(STAMP) ## this broker beside Apache Kafka: medians, spread, ratios (build/bench/)
	@$(BIN)/python -m penstock.bench $(BENCH_ARGS)

fuzz: $(STAMP) ## a million mutated frames against a real broker
	@$(BIN)/python -m tests.robustness.fuzz_frames $(FUZZ_ARGS)

crash: $(STAMP) ## kill -9 under load, many times (CRASH_ARGS="--kills 500")
	@$(BIN)/python -m tests.robustness.crash_soak $(CRASH_ARGS)

transactions: $(STAMP) ## a copy in transactions under kill -9 and cut connections (TRANSACTIONS_ARGS="--seed 1")
	@$(BIN)/python -m tests.robustness.transaction_soak $(TRANSACTIONS_ARGS)

simulation: $(STAMP) ## a simulated cluster under faults, a thousand seeds (SIMULATION_ARGS="--first 4711 --seeds 1 --trace")
	@$(BIN)/python -W ignore -m tests.simulation.soak $(SIMULATION_ARGS)

compaction: $(STAMP) ## compaction beside two writers and a reader, under kill -9 (COMPACTION_ARGS="--kills 100")
	@$(BIN)/python -m tests.robustness.compaction_soak $(COMPACTION_ARGS)

zombies: $(STAMP) ## a thousand races of two producers with one transactional id
	@$(BIN)/python -m tests.robustness.zombie_races $(ZOMBIES_ARGS)

definitions: $(STAMP) ## derive the message definitions again from kio's metadata
	@$(BIN)/python tools/derive_definitions.py

compatibility: $(STAMP) ## derive COMPATIBILITY.md again from the router and the client matrix
	@$(BIN)/python tools/derive_compatibility.py

errors: $(STAMP) ## derive docs/errors.md from the table of error conditions
	@$(BIN)/python tools/derive_errors.py

connectors: $(STAMP) ## derive docs/connectors-reference.md from the definitions of connectors, transforms and converters
	@$(BIN)/python tools/derive_connectors.py

images: $(STAMP) ## draw the diagrams of the documentation; render `make demo` as a picture of a terminal
	@$(BIN)/python tools/draw_diagrams.py
	@$(BIN)/python tools/render_terminal.py --prompt 'make demo' --output docs/images/demo.svg -- $(BIN)/python examples/demo.py

lock: $(STAMP) ## resolve the dependencies: names, versions and hashes, no addresses
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--no-annotate --upgrade pyproject.toml --group dev -o $(LOCK)

clean: ## remove what the targets made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
