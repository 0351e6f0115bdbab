# Everything a contributor does. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Those that tests/pythons runs. The image has 3.11. venv needs ensurepip, which Debian packages by itself.
SUPPORTED := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for each in python3.11 python3 python3.12 python3.13 python3.14; do \
	"$$each" -c '$(SUPPORTED)' 2>/dev/null && echo "$$each" && break; done)
FOUND = $(or $(shell "$(PYTHON)" -c '$(SUPPORTED)' 2>/dev/null && echo "$(PYTHON)"),$(error $(if $(PYTHON),$(PYTHON) is \
	not,nothing in PATH is) Python 3.11 to 3.14 with venv: install one (on Debian 12 python3.11 and python3.11-venv), or \
	name it: make PYTHON=/path/to/python3.11))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CHECKED := $(VENV)/.checked
RUNTIME := $(VENV)/.runtime
UV := VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Where it is set, every process of a test compiles all that it imports anew: two CPU seconds instead of half of one.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo check test test-pure test-for test-full lint format types layers generate dashboards mutation lock bench controlplane \
	cluster image docs pictures dist release clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# pip installs uv, and uv, which takes seconds for what takes pip a minute, the rest.
$(STAMP): locks/dev.txt pyproject.toml
	$(FOUND) -m venv $(VENV)
	@awk '/^uv==/ {found = 1} found {print} found && !/\\$$/ {exit}' locks/dev.txt > $(VENV)/uv.txt
	@echo "installing the locked packages into $(VENV) ..."
	$(PIP) --require-hashes -r $(VENV)/uv.txt
	$(UV) --require-hashes -r locks/dev.txt
	$(UV) --no-deps --no-build-isolation --editable .
	@touch $@

# What runs gangctl and nothing else; make setup puts the rest beside it.
$(RUNTIME): locks/runtime.txt
	$(FOUND) -m venv $(VENV)
	@echo "installing the locked packages into $(VENV) ..."
	$(PIP) --require-hashes -r locks/runtime.txt
	@touch $@

setup: $(STAMP) ## a virtual environment with the locked dependencies

demo: $(RUNTIME) ## JobSets that strand each other, and then take turns, on a simulated cluster
	$(BIN)/python -m gangctl demo

# The commands are in .ci/timed: each says how long it took, and the CPU seconds of it.
TIMED := .ci/timed

$(CHECKED): $(STAMP) pyproject.toml $(shell git ls-files -co --exclude-standard '*.py')
	$(TIMED) $(BIN)/ruff check .
	$(TIMED) $(BIN)/ruff format --check .
	$(TIMED) $(BIN)/lint-imports --no-logo
	$(TIMED) $(BIN)/mypy
	@touch $@

check: $(CHECKED) ## lint, format, import layers and types, if a file has changed since they passed

# Three on two cores: a test of the control plane waits for a third of its time.
PYTEST := $(TIMED) $(BIN)/pytest -n 3 --durations=40 --durations-min=1

test: $(CHECKED) ## the first tier: every check, and one proof of every promise; without Go the control plane's are skipped, loudly
	$(PYTEST)

test-pure: $(CHECKED) ## those of them that need no control plane
	$(PYTEST) -m "not controlplane"

test-for: $(STAMP) ## those that one kind of change can break: WHAT=alert, and the other names of the table in CONTRIBUTING.md
	@$(BIN)/python -m tests.changes $(WHAT)

test-full: $(CHECKED) ## both tiers, on every Kubernetes minor (an hour and more); the answer is docs/test-report.md
	$(if $(shell command -v go),$(BIN)/python -m tests.controlplane build --full --node)
	$(BIN)/python -m tests.report

mutation: $(STAMP) ## change the functional core in small ways, one at a time: how many changes the tests notice
	$(BIN)/python -m tests.mutation

lint: $(STAMP) ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## let ruff write
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## mypy --strict on source and tests
	$(BIN)/mypy

layers: $(STAMP) ## the import contracts of ARCHITECTURE.md
	$(BIN)/lint-imports --no-logo

controlplane: $(STAMP) ## build etcd, Kubernetes, JobSet, Kueue, KWOK, Prometheus and Helm into the cache (minutes); fetch busybox
	$(BIN)/python -m tests.controlplane build
	$(BIN)/python -m tests.pathways.wrapper.busybox

cluster: $(STAMP) ## a shell in real Kubernetes with JobSet: on nodes that run containers, with gangctl, where they can run (root); NODES=simulated: 24 GPUs
	$(BIN)/python -m tests.controlplane cluster $(addprefix --nodes ,$(NODES)) -- bash

image: $(STAMP) ## the container image, with podman, docker or buildah (PUSH=IMAGE: and push it by this name; BASE=IMAGE: on another base; ARCHIVE=FILE: as an OCI archive, too)
	$(BIN)/python -m release.image $(addprefix --base ,$(BASE)) $(addprefix --archive ,$(ARCHIVE)) $(addprefix --push ,$(PUSH))

bench: $(STAMP) ## every row of the budgets, 50 minutes on a quiet machine (WITH="soak contention-older": more); the answer is benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks all $(addprefix --with ,$(WITH))

GENERATORS := benchmarks.day.page grafana.generate tests.cli.reference tests.live.causes_found tests.manager.metricspage \
	tests.manifests.crds tests.manifests.fieldspage tests.manifests.webhooks tests.monitoring.prometheusrule \
	tests.manifests.nativepolicies tests.manifests.installation tests.manifests.chart tests.monitoring.runbooks \
	tests.policies.table

generate: $(STAMP) ## write anew all that is written from code: dashboards, definitions, rules, tables, schemas
	for module in $(GENERATORS); do $(BIN)/python -m $$module || exit; done
	$(BIN)/pytest -q -n0 tests/cli -k "schema_is_published or published_schema" --update-golden

dashboards: $(STAMP) ## write grafana/dashboards anew, and nothing else
	$(BIN)/python -m grafana.generate

docs: $(STAMP) ## the documentation as a site, in site/
	$(BIN)/python -m release.site

pictures: $(STAMP) ## draw docs/images anew: dashboards, as a real Prometheus answers their queries, and the day of a cluster
	$(UV) --require-hashes -r locks/docs.txt
	$(BIN)/python -m tests.grafana.images
	$(BIN)/python -m benchmarks.day.page

# A file that was published within the last week is not taken: that is when a stolen account is noticed.
LOCK := $(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --exclude-newer "7 days" \
	--python-version 3.11

lock: $(STAMP) ## rewrite the lock files; only what is a week old is taken
	$(LOCK) pyproject.toml -o locks/runtime.txt
	$(LOCK) pyproject.toml --group dev -c locks/runtime.txt -o locks/dev.txt
	$(LOCK) --group docs -c locks/dev.txt -o locks/docs.txt

RELEASE = $(addprefix --base ,$(BASE)) $(addprefix --image ,$(IMAGE)) $(addprefix --url ,$(URL)) $(addprefix --homepage ,$(HOMEPAGE))

dist: $(STAMP) ## wheel, source distribution, chart, bill of materials and checksums of the last commit, in dist/ (IMAGE=IMAGE: and install.yaml, which nodes pull this image for; BASE=IMAGE: and the image on it; URL=URL: and a krew manifest; HOMEPAGE=URL: the address of the project)
	$(BIN)/python -m release $(RELEASE)

release: $(STAMP) ## the same, of a commit with the tag of its version and a day in CHANGELOG.md (docs/releasing.md)
	$(BIN)/python -m release --tagged $(RELEASE)

clean: ## remove what setup made
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
