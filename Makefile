# Everything here works on a machine with Python 3.11 or newer (with venv) and make.
#
# Variables:
#   PYTHON      interpreter the virtual environment is made from      (make run PYTHON=python3.12)
#   VENV        folder of the virtual environment
#   PIP_ARGS    extra options of every `pip install`
#   RUN_ARGS    extra options of `gmc-bench run`                      (make run RUN_ARGS="--seed 1")
#   TEST_JOBS   processes that share the tests                        (make test TEST_JOBS=8)
#   PYTEST_ARGS extra options of pytest                               (make test PYTEST_ARGS="-k config")
#   BENCH_ARGS  extra options of the benchmarks                       (make bench BENCH_ARGS="--seconds 60")

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
RUN_ARGS ?=
TEST_JOBS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=

BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
# A stamp is written when its step has succeeded; what it depends on decides when to repeat it.
PACKAGE := $(VENV)/.installed-package
TOOLS := $(VENV)/.installed-tools
DOCS := $(VENV)/.installed-docs

# The tests of a file share what they train, so they stay in one process. Files keep their order: the
# longest tests come in the middle, and many short ones are left to share out at the end.
PYTEST = $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

# Prints the requirements of the groups that are named (PEP 735); pip itself reads groups only since 25.1.
READ_GROUPS := import sys, tomllib; \
	groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]; \
	print(*(line for name in sys.argv[1:] for line in groups[name]), sep="\n")

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run check lint types imports test test-all wheel-test audit sbom bench tables site docs clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(PACKAGE) ## Make the virtual environment and install the package

run: $(PACKAGE) ## Train and score RecMorph on flat terrain of the unimal suite
	$(BIN)/gmc-bench run --method recmorph --suite unimal --task ft $(RUN_ARGS)

check: $(TOOLS) ## Lint, types and dependency rules; runs all of them, fails if any fails
	@$(MAKE) --no-print-directory --keep-going lint types imports

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TOOLS)
	$(BIN)/mypy

imports: $(TOOLS)
	$(BIN)/lint-imports

# Images of containers often forbid bytecode; each process that a test starts would compile anew.
test test-all: export PYTHONDONTWRITEBYTECODE :=

# The tests also run when a check has failed, so that one call shows everything.
test: $(TOOLS) ## All checks and the default tests
	@status=0; \
	$(MAKE) --no-print-directory check || status=1; \
	test $$status -eq 0 || echo "==> a check failed (see above); running the tests all the same"; \
	echo "$(PYTEST) $(PYTEST_ARGS)"; \
	$(PYTEST) $(PYTEST_ARGS) || status=1; \
	exit $$status

test-all: $(TOOLS) ## Every test, slow and GPU ones too (those without their data or device skip)
	$(PYTEST) -m "" $(PYTEST_ARGS)

wheel-test: $(PACKAGE) ## Build the wheel and use it from an empty folder
	@$(PIP_INSTALL) "setuptools>=77" wheel
	.ci/wheel $(BIN)/python

audit: $(PACKAGE) ## Look for known vulnerabilities of the pinned packages (asks a database on the network)
	@$(PIP_INSTALL) pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

sbom: $(PACKAGE) ## Write a bill of materials of what is installed, sbom.json (CycloneDX)
	@$(PIP_INSTALL) cyclonedx-bom
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-format JSON --output-file sbom.json $(BIN)/python

bench: $(PACKAGE) ## Measure speed beside the alternatives; writes benchmarks.md (needs a quiet machine)
	$(BIN)/python -m benchmarks.run_all --out benchmarks.md $(BENCH_ARGS)

# Everything that is made from records: tables, figures, the README's part and docs/findings.md.
TABLES = $(BIN)/gmc-bench leaderboard build --records leaderboards --out leaderboards --readme README.md \
	--findings docs/findings.md

tables: $(PACKAGE) ## Make all files that follow from records again, to the byte
	$(TABLES)

site: $(PACKAGE) ## Write the leaderboard as a static site to leaderboards/site
	$(TABLES) --site --replays

docs: $(DOCS) site ## Write the documentation as a site to build/docs, with the leaderboard inside
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## Remove caches and build output (never runs or records)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove the virtual environment as well
	rm -rf $(VENV)

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { \
		echo "'$(PYTHON)' was not found; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "gmc-bench needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
			"name a newer one: make PYTHON=python3.12"; \
		exit 1; }
	@echo "==> making the virtual environment $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)

$(PACKAGE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> installing PyTorch (the largest download; several minutes on a slow line)"
	@$(PIP_INSTALL) torch
	@echo "==> installing gmc-bench and the packages it needs"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(TOOLS): $(PACKAGE)
	@echo "==> installing the test and lint tools"
	@$(BIN)/python -c '$(READ_GROUPS)' lint test > $@.txt
	@$(PIP_INSTALL) --requirement $@.txt
	@touch $@

$(DOCS): $(PACKAGE)
	@echo "==> installing what makes the documentation's site"
	@$(BIN)/python -c '$(READ_GROUPS)' docs > $@.txt
	@$(PIP_INSTALL) --requirement $@.txt
	@touch $@
