# The targets themselves set up everything that a fresh machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The first file exists if the demo's packages are installed, the second if those of tests and checks are, too.
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
# This file exists if the tests and their imports are compiled.
COMPILED := $(VENV)/.compiled
# Many tests wait for servers and killed processes, so there are more workers than cores.
EVERYDAY := $(BIN)/pytest -n 4 --dist loadgroup -m "everyday and not prove"

.DEFAULT_GOAL := help

# Pytest compiles each test once. All later runs read the bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup servers demo demo-redis demo-dashboard test test-all test-stress browser prove installs release lint audit site types bench soak clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(RUN): pyproject.toml .ci/setup
	PYTHON=$(PYTHON) VENV=$(VENV) .ci/setup run
	@touch $@

$(DEV): pyproject.toml .ci/setup
	PYTHON=$(PYTHON) VENV=$(VENV) .ci/setup dev
	@touch $(RUN) $@

setup: $(DEV)  ## Make the virtual environment with all tools

servers:  ## Install the missing servers that tests need (as root, on Debian)
	@.ci/setup servers

demo: $(RUN)  ## Run the main job on one SQLite file: book orders once each, with duplicates and a crash
	@.ci/setup java || true  # without Java, the demo leaves out the Spark pipeline
	@$(BIN)/doubtless demo

demo-redis: $(RUN)  ## Run the main job on Redis
	@.ci/setup redis
	@$(BIN)/doubtless demo --on redis

demo-dashboard: $(RUN)  ## Run the main job on Redis, then the dashboard until Ctrl-C: decide what is In Doubt
	@.ci/setup redis
	@$(BIN)/doubtless demo --on redis --no-spark --dashboard

# In a fresh clone, otherwise every worker would compile at the same time. An error shows when the test runs.
$(COMPILED): $(DEV)
	@echo "compiling the tests"
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

test: $(COMPILED) servers  ## Run the tests of every day: all units, stores on real servers, one path through each capability
	$(EVERYDAY)

test-all: $(COMPILED) servers  ## Run all other tests: each provider and guard, Spark, killed processes, a small form of each proof
	$(BIN)/pytest -n 7 --dist loadgroup -m "not everyday and not prove"

# Ten times beside two busy loops, then three times beside four. The first failure ends it.
test-stress: $(COMPILED) servers  ## Run the tests of every day thirteen times on a busy machine
	.ci/stress 10 2 $(EVERYDAY)
	.ci/stress 3 4 $(EVERYDAY)

browser: $(DEV) servers  ## Test the dashboard in a browser; prove does this, too
	@.ci/setup browser
	$(BIN)/pytest tests/acceptance/test_dashboard.py

prove: $(COMPILED) servers  ## Run the long proofs: soaks, processes that are killed, the dashboard in a browser, planted bugs
	@.ci/setup browser
	@.ci/setup delta
	@.ci/setup iceberg
	$(BIN)/pytest -n 3 --dist loadgroup -m "prove or proof" --proof=docs/proof.md $(OPTIONS)

installs: $(DEV) servers  ## Install the wheel in empty environments, and follow README and tutorial there
	.ci/installs

release: $(DEV)  ## Build sdist, wheel, bill of materials and checksums in build/release; publish nothing
	.ci/release

lint: $(DEV)  ## Style, import contracts, and plain English in README and docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python .ci/plain.py

audit: $(DEV)  ## Look for known holes in the oldest and newest versions that we allow, and in the installed ones
	.ci/audit

site: $(DEV)  ## Build the documentation as a site, in build/site; a warning fails
	@$(BIN)/python .ci/site.py

types: $(DEV)  ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright

bench: $(DEV)  ## Measure against the budgets, as ratios in one run
	@.ci/setup redis
	$(BIN)/python -m benchmarks

soak: $(RUN)  ## 10,000 messages, 4 processes, 20 SIGKILLs; effects counted
	@.ci/setup redis
	$(BIN)/python -m benchmarks.soak

soak-chaos: $(RUN)  ## 100,000 messages on servers that fail over, move, stop, jump in time and are restored
	@.ci/setup redis
	@.ci/setup faketime
	@.ci/setup postgres
	$(BIN)/python -m benchmarks.chaos

clean:  ## Remove the files that the targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
