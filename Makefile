# Entry points for people. `make help` lists them; CONTRIBUTING.md says more.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Settings of `make demo`, `make bench` and `make fuzz`.
NODES ?= 8
KEEP ?=
BENCH ?=
SEEDS ?= 1000
FROM ?= 0

# The first of these that is at least 3.11 makes the virtual environment; name another with PYTHON=...
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11 python3.14,\
  $(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)) python3)
PYTHON_MIN := (3, 11)
GO_MIN := 1.26

# What the control plane is found in before it is built; the same rule as src/fairlead/localcluster.
CACHE := $(or $(FAIRLEAD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fairlead)

# One thing after the other: lint stops a broken tree before the long tests, and pytest speaks last.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help install test lint types imports unit fuzz controlplane plugin demo demo-esi bench lock proto crds requirements format clean
.PHONY: check-python check-go

help: ## Show this list
	@echo 'Usage: make TARGET [NAME=value]'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r target text; do printf '  %-14s %s\n' "$${target#  }" "$$text"; done

install: $(STAMP) ## Install Fairlead and its tools into .venv (command: .venv/bin/fairlead)

# The lock has every wheel with its hash; pip's own settings say where they come from.
$(STAMP): requirements.lock pyproject.toml
	@$(MAKE) --no-print-directory check-python
	@test -x $(BIN)/python || { echo '== Creating $(VENV) with $(PYTHON)'; $(PYTHON) -m venv $(VENV); }
	@echo '== Installing the locked libraries (about a minute the first time)'
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock
	@echo '== Installing Fairlead itself'
	@$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

test: check-go install lint types imports controlplane plugin ## Everything: linters, types, import rules, all tests
	@echo '== Tests: unit and property, two at a time'
	@$(BIN)/pytest -n 2 --dist worksteal tests/unit tests/property
# In order of names: the longest test must not be left for the end, when the other half would wait for it.
	@echo '== Tests: contract and end to end, with servers of their own, two files at a time'
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder tests/contract tests/e2e

lint: install ## ruff: rules and format
	@echo '== Lint: ruff check, ruff format'
	@status=0; $(BIN)/ruff check . || status=1; $(BIN)/ruff format --check . || status=1; exit $$status

types: install ## pyright, strict, on src and bench
	@echo '== Types: pyright'
	@$(BIN)/pyright

imports: install ## Import rules of pyproject.toml
	@echo '== Import rules: import-linter'
	@$(BIN)/lint-imports --no-logo

unit: install ## Fast tests only: no control plane, nothing slow
	@echo '== Tests: fast ones'
	@$(BIN)/pytest -m 'not e2e and not slow'

fuzz: install ## Random worlds in which things go wrong (SEEDS=1000 of them, FROM=0 on)
	@$(BIN)/fairlead simulate --faults $(FROM) --seeds $(SEEDS)

# Its first build takes minutes, longer than any one test may: so it is done before them, with its progress shown.
controlplane: check-go install ## Build the local control plane if need be and see it start
	@echo '== Local control plane: up and down'
	@name=make-$$$$; trap "$(BIN)/fairlead cluster down --name $$name >/dev/null" EXIT INT TERM; \
	  $(BIN)/fairlead cluster up --name $$name --nodes 1 >/dev/null

# After the control plane: what the two share is then compiled already.
plugin: check-go install ## Build kube-schedulers with the recorder's plugin, and the Spark operator, if need be
	@echo '== kube-schedulers with the recorder'"'"'s plugin, Spark operator'
	@$(BIN)/python plugins/build.py

demo: check-go install ## The whole system on this machine (NODES=8 and more, KEEP=1 leaves it running)
	@$(BIN)/fairlead demo --nodes $(NODES) $(if $(filter-out 0 no,$(KEEP)),--keep)

demo-esi: check-go install ## External schedulers on this machine: ESI's evaluation with the example scheduler
	@$(BIN)/fairlead esi demo $(if $(filter-out 0 no,$(KEEP)),--keep)

bench: install ## All benchmarks, or one with BENCH=name
	@found=; for name in $(or $(BENCH),$(BENCHES)); do \
	  found=1; echo "== Benchmark: $$name"; $(BIN)/python -m bench.$$name || exit 1; \
	done; test -n "$$found" || echo 'There is no benchmark in bench/ yet.'

# A benchmark is a file or a package in bench/ that can be run; the others there are its helpers.
BENCHES = $(sort $(patsubst bench/%.py,%,$(shell grep -ls '^if __name__ == ' bench/*.py)) \
  $(patsubst bench/%/__main__.py,%,$(wildcard bench/*/__main__.py)))

PROTOS = $(wildcard src/fairlead/*/pb/*.proto src/fairlead/*/*/pb/*.proto)

proto: install ## Generate the gRPC messages anew after a change of a .proto file
	@$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src $(PROTOS)
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	  (cd plugins/kube-scheduler && go build -o "$$folder" google.golang.org/protobuf/cmd/protoc-gen-go) && \
	  PATH="$$folder:$$PATH" $(BIN)/python -m grpc_tools.protoc -Isrc --go_out=plugins/kube-scheduler \
	    --go_opt=module=fairlead.dev/kube-scheduler-sniffer src/fairlead/recorder/pb/recorder.proto

crds: install ## Generate deploy/crds anew after a change of the structs that they are made from
	@$(BIN)/python -m fairlead.wire.crds deploy/crds

requirements: install ## Bring docs/requirements.md up to date with the tests
	@$(BIN)/python tests/requirements_table.py --write

format: install ## Let ruff put everything into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Runs uv from PATH, else from a throw-away environment. Versions that still fit are kept.
lock: check-python ## Resolve requirements.lock anew after a change of dependencies
	@set -e; uv=$$(command -v uv || true); \
	if [ -z "$$uv" ]; then \
	  folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	  echo '== Fetching uv'; $(PYTHON) -m venv "$$folder"; \
	  "$$folder/bin/python" -m pip install --quiet --disable-pip-version-check uv; uv="$$folder/bin/uv"; \
	fi; \
	echo '== Resolving'; \
	"$$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --extra dev pyproject.toml -o requirements.lock; \
	git --no-pager diff --stat -- requirements.lock

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < $(PYTHON_MIN))' 2>/dev/null || { \
	  echo "Fairlead needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)."; \
	  echo 'Install one (Debian: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3'; \
	  exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments (Debian: apt-get install python3-venv)."; exit 1; } >&2
	@test ! -x $(BIN)/python || $(BIN)/python -c 'import sys; sys.exit(sys.version_info < $(PYTHON_MIN))' || { \
	  echo '$(VENV) was made with an older Python: remove it (rm -r $(VENV)) and run make again.'; exit 1; } >&2

# Go builds the local control plane once; with binaries given or built before it is not needed.
check-go:
	@test -n '$(KUBEBUILDER_ASSETS)' || test -n "$$(find '$(CACHE)' -name kube-apiserver 2>/dev/null)" || { \
	  version=$$(go env GOVERSION 2>/dev/null | sed 's/^go//'); \
	  test "$$(printf '%s\n' $(GO_MIN) "$$version" | sort -V | head -n 1)" = $(GO_MIN) && exit 0; \
	  echo "The local control plane is built once with Go $(GO_MIN) or newer; found: $${version:-none}."; \
	  echo 'Install Go from your system or https://go.dev/dl, or set KUBEBUILDER_ASSETS to a folder with etcd,'; \
	  echo 'kube-apiserver, kube-controller-manager and kwok.'; exit 1; } >&2

clean: ## Remove caches and build output (keeps .venv)
	@rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
