# make setup | demo | test | check | bench | soak | testbed | constraints
SHELL := /bin/bash
PYTHON ?= python3
V := .venv/bin
PACKAGES := core $(sort $(dir $(wildcard plugins/*/pyproject.toml)))
EDITABLE := $(foreach p,$(PACKAGES),-e $(patsubst %/,%,$(p)))
PYPROJECTS := $(wildcard core/pyproject.toml plugins/*/pyproject.toml)
PYTEST := $(V)/python -m pytest

.PHONY: setup demo test check bench soak testbed constraints clean
setup: .venv/.done

.venv/.done: constraints.txt requirements-dev.txt $(PYPROJECTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; this is $$($(PYTHON) --version)"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "can't make .venv; on Debian: apt-get install python3-venv"; exit 1; }
	$(V)/pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(V)/uv pip install --quiet --python $(V)/python -c constraints.txt --build-constraint constraints.txt -r requirements-dev.txt $(EDITABLE)
	@touch $@

demo: setup
	@PATH="$(CURDIR)/$(V):$$PATH" sh demo/run.sh

testbed: ## What the tests need besides Python: Debian packages, and a Kubernetes built from source (8 minutes, once)
	bash tests/testbed/prepare.sh

test: setup
	@bash tests/testbed/prepare.sh --optional
	$(PYTEST) -m "not soak"

soak: setup
	$(PYTEST) -m soak

check: setup
	$(V)/ruff format --check .
	$(V)/ruff check .
	@set -e; for p in $(PACKAGES); do $(V)/mypy $$p/src; done
	$(PYTEST) -q tests/test_layering.py

bench: setup
	$(V)/python -m benchmarks

constraints: setup
	@{ head -1 constraints.txt; $(V)/uv pip freeze --python $(V)/python | grep -vE '^(-e|sky-|pip=|setuptools=)'; } > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf .venv
