# Everything a fresh machine needs is set up by the targets themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The package with what the demo needs, and what the tests, style and types need besides.
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
# The bytecode of all tests, and of what they import.
COMPILED := $(VENV)/.compiled
# Many tests wait for real servers and for processes that they kill: more workers than cores.
EVERYDAY := $(BIN)/pytest -n 4 --dist loadgroup -m "everyday and not prove"

.DEFAULT_GOAL := help

# Tests are rewritten once and then read, not rewritten by every process of every run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup servers demo demo-redis demo-dashboard test test-all test-stress browser prove installs release lint audit site types bench soak clean

help:  ## Say what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(RUN): pyproject.toml .ci/setup
	PYTHON=$(PYTHON) VENV=$(VENV) .ci/setup run
	@touch $@

$(DEV): pyproject.toml .ci/setup
	PYTHON=$(PYTHON) VENV=$(VENV) .ci/setup dev
	@touch $(RUN) $@

setup: $(DEV)  ## Make the virtual environment with all tools

servers:  ## Install Debian's servers for the tests where they are missing and we may
	@.ci/setup servers

demo: $(RUN)  ## Run the main job on one SQLite file: book orders once each, with duplicates and a crash
	@.ci/setup java || true  # for the pipeline of Spark at its end, which is left out without it
	@$(BIN)/doubtless demo

demo-redis: $(RUN)  ## The same on Redis
	@.ci/setup redis
	@$(BIN)/doubtless demo --on redis

demo-dashboard: $(RUN)  ## The same, then the dashboard over it: run what is In Doubt, until Ctrl-C
	@.ci/setup redis
	@$(BIN)/doubtless demo --on redis --no-spark --dashboard

# In a fresh clone each worker would do it, all at the same time. What is wrong with a test is said where it runs.
$(COMPILED): $(DEV)
	@echo "compiling the tests"
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

test: $(COMPILED) servers  ## Run the tests of every day: all units, stores on real servers, one path through each capability
	$(EVERYDAY)

test-all: $(COMPILED) servers  ## Run all other tests: each provider and guard, Spark, killed processes, a small form of each proof
	$(BIN)/pytest -n 7 --dist loadgroup -m "not everyday and not prove"

# As long as nothing fails: ten times beside two busy loops, and three times beside four.
test-stress: $(COMPILED) servers  ## Run the tests of every day thirteen times on a machine that is busy with something else
	.ci/stress 10 2 $(EVERYDAY)
	.ci/stress 3 4 $(EVERYDAY)

browser: $(DEV) servers  ## Run the tests of the dashboard in a browser, which are a part of prove
	@.ci/setup browser
	$(BIN)/pytest tests/acceptance/test_dashboard.py

prove: $(COMPILED) servers  ## Run the long proofs: soaks, processes that are killed, the dashboard in a browser, planted bugs
	@.ci/setup browser
	@.ci/setup delta
	@.ci/setup iceberg
	$(BIN)/pytest -n 3 --dist loadgroup -m "prove or proof" --proof=docs/proof.md

installs: $(DEV) servers  ## Install the wheel in empty environments, and do there what README and tutorial say
	.ci/installs

release: $(DEV)  ## Build sdist, wheel, bill of materials and checksums, in build/release; publishes nothing
	.ci/release

lint: $(DEV)  ## Style, import contracts, and plain English in README and docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python .ci/plain.py

audit: $(DEV)  ## Look for known holes in the oldest and the newest versions that we allow, and in what is installed
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

soak-chaos: $(RUN)  ## 100,000 messages on each kind of servers that fail over, move, stop, jump in time and are restored
	@.ci/setup redis
	@.ci/setup faketime
	@.ci/setup postgres
	$(BIN)/python -m benchmarks.chaos

clean:  ## Remove what the targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
