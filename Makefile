# Kubetally on one machine. `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:

VENV ?= .venv
PY := $(VENV)/bin/python
LOCAL := $(PY) -m kubetally.local

export PYTHONPATH := include
# Byte code halves the start of every process; some machines switch it off.
unexport PYTHONDONTWRITEBYTECODE
# So that a value with quotes or spaces reaches the command as it is.
export Q D CLUSTER FROM TO REASON

# The stamps' names change with the lock files: another lock, another installation.
digest = $(firstword $(shell cat $(1) | cksum | tr ' ' '-'))
RUN_STAMP := $(VENV)/installed-$(call digest,requirements.txt)
DEV_STAMP := $(VENV)/installed-dev-$(call digest,requirements.txt requirements-dev.txt)

.PHONY: help run stop clean status logs test lint lock sql day migrate forget gap doctor airflow oracles clusters bench hooks

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_STAMP) ## set up, start, and fill: from nothing to costs on a page
	@exec $(LOCAL) run

stop: ## stop everything that `make run` started
	@if [ -x $(PY) ]; then $(LOCAL) stop; fi

clean: ## stop everything and remove it: databases, logs, environment
	@if [ -x $(PY) ]; then $(LOCAL) clean; fi
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find dags include plugins tests -name __pycache__ -type d -prune -exec rm -rf {} +

status: $(RUN_STAMP) ## what runs, and which days are published
	@$(LOCAL) status

logs: ## follow the logs of what runs
	tail -n 40 -F .kubetally/logs/*.log

sql: $(RUN_STAMP) ## Q="select …": print a query's result as CSV, as the read-only BI role
	@$(LOCAL) sql "$$Q"

day: $(RUN_STAMP) ## D=2026-11-03: run that day's window through costs_daily
	@$(LOCAL) day "$$D"

migrate: $(RUN_STAMP) ## bring the warehouse to the current version
	@$(LOCAL) migrate

forget: $(RUN_STAMP) ## CLUSTER=demo: delete every row of one cluster
	@$(LOCAL) forget "$$CLUSTER"

gap: $(RUN_STAMP) ## CLUSTER=… FROM=… TO=… REASON="…": acknowledge a gap that cannot be filled
	@$(LOCAL) gap "$$CLUSTER" "$$FROM" "$$TO" "$$REASON"

doctor: $(RUN_STAMP) ## CLUSTER=demo: what of a cluster is reachable, missing, doubled
	@$(PY) -m kubetally doctor "$$CLUSTER"

airflow: $(RUN_STAMP) ## ARGS="dags list": run an airflow command in this environment
	@$(LOCAL) airflow $(ARGS)

test: $(DEV_STAMP) ## set up and run every test (ARGS=… goes to pytest)
	@exec $(PY) -m pytest $(ARGS)

oracles: $(DEV_STAMP) ## run the case files in $KUBETALLY_ORACLES
	@exec $(PY) -m pytest tests/oracles $(ARGS)

clusters: $(DEV_STAMP) ## load the recorded clusters in $KUBETALLY_CLUSTERS and check their numbers
	@exec $(PY) -m pytest tests/clusters $(ARGS)

bench: $(DEV_STAMP) ## run the benchmarks, one after the other
	@for file in benchmarks/*.py; do echo "== $$file"; $(PY) $$file $(ARGS) || exit 1; done

lint: $(DEV_STAMP) ## ruff, its formatter, and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

hooks: $(DEV_STAMP) ## check every commit with pre-commit
	$(VENV)/bin/pre-commit install

lock: $(RUN_STAMP) ## resolve requirements*.in into requirements*.txt, with hashes
	$(call compile,requirements)
	$(call compile,requirements-dev)
	$(call compile,requirements-celery)

compile = $(VENV)/bin/uv pip compile --quiet --python-version 3.11 --universal --generate-hashes \
	--no-emit-index-url --no-emit-find-links $(1).in -o $(1).txt

$(PY):
	@found=; for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  found=$$python; \
	  $$python -c 'import ensurepip, venv' 2>/dev/null || continue; \
	  echo "Creating $(VENV) with $$($$python --version) …"; \
	  $$python -m venv $(VENV) && exit 0; rm -rf $(VENV); exit 1; \
	done; \
	if [ -n "$$found" ]; then \
	  version=$$($$found -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "error: $$found cannot make a virtual environment." \
	    "On Debian and Ubuntu: sudo apt-get install python$$version-venv" >&2; \
	else \
	  echo "error: Kubetally needs Python 3.11 or newer." \
	    "On Debian and Ubuntu: sudo apt-get install python3 python3-venv" >&2; \
	fi; exit 1

$(RUN_STAMP): | $(PY)
	@$(PY) -m kubetally.local.install requirements.txt
	@rm -f $(VENV)/installed-* && touch $@

$(DEV_STAMP): | $(RUN_STAMP)
	@$(PY) -m kubetally.local.install requirements-dev.txt
	@touch $@
