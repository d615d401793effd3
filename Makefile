# `make demo` and `make test` each work alone on a fresh checkout: they make .venv and install what they need.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-torch test-cuda lint format bench clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed ## install weft in .venv and run the demonstration
	@$(BIN)/weft demo two_moons

test: lint ## lint, then run every test
	$(BIN)/python -m pytest -n auto --dist worksteal

test-torch: $(VENV)/.installed-dev $(VENV)/.installed-bench ## test with the real torch and jax (installs them)
	$(BIN)/python -m pytest bench/_torch -o filterwarnings=default

test-cuda: $(VENV)/.installed-dev $(VENV)/.installed-interop ## test on the GPU that is here; without one it fails
	$(BIN)/python -m pytest bench/_cuda -o filterwarnings=default

lint: $(VENV)/.installed-dev ## style, types and the order of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev ## rewrite the sources in the house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.installed-bench ## run every program in bench/ (installs torch and jax)
	@failed=; for program in bench/[!_]*.py; do \
		echo "== $$program"; \
		$(BIN)/python "$$program" || failed="$$failed $$program"; \
	done; \
	[ -z "$$failed" ] || { echo "slower than wanted, or failed:$$failed"; exit 1; }

clean: ## remove .venv, caches and everything built
	rm -rf $(VENV) build dist out src/*.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each set of requirements, renewed when pyproject.toml changes.
$(VENV)/.installed: $(VENV)/.made pyproject.toml
	@echo "installing weft in $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-%: $(VENV)/.made pyproject.toml
	@echo "installing weft[$*] in $(VENV)"
	@$(PIP) --editable '.[$*]'
	@touch $@

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "weft needs Python 3.11 or newer, and there is no '$(PYTHON)' here." >&2; \
		echo "Name one: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "weft needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments: its venv and ensurepip modules are missing." >&2; \
		echo "Some systems package them apart, as python3-venv." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@
