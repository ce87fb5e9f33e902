# make setup   the environment in .venv
# make serve   the whole service in this terminal: embedded Valkey, API and worker
# make check   format, lint and types
# make test    all of it: environment, then every test
# make faults  every fault on purpose, and the table of what was lost; about fifteen minutes
# make audit   known weaknesses of the pinned packages; asks the index of packages, so it needs a network
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup serve check test format faults audit clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, this is {sys.version}")'
	@echo 'making $(VENV): torch and the other packages take some minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt --editable '.[attest,cli,client,plot,torch]' --group api --group worker --group embedded --group dev
	touch $(READY)

serve: $(READY)
	@$(BIN)/python -m app.local.serve

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: $(READY)
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

faults: $(READY)
	$(BIN)/python -m tests.faults

audit:
	$(PYTHON) -m venv .audit
	.audit/bin/python -m pip install --quiet pip-audit
	.audit/bin/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip --progress-spinner off \
	  || { echo 'audit: a package has a known weakness, or (with "not found") the index could not be asked: see above'; exit 1; }

clean:
	rm -rf $(VENV) .audit dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
