# make setup   the environment in .venv, with the development tools
# make serve   the whole service in this terminal: embedded Valkey, API and worker
# make check   format, lint and types
# make test    the environment, then every test
# make faults  causes every fault on purpose, and writes the table of what was lost; about twenty minutes
# make lock    the packages of the images with their hashes, in deploy/lock; it takes minutes and needs a network
# make sbom    what the images are made of, in the form of CycloneDX, in dist
# make simulate SEED=1 HISTORIES=1000 JOBS=1   simulated histories of the service, disturbed in every way
# make gpu     the tests and benchmarks of the engine on cuda:0, where there is one
# make audit   known vulnerabilities of the pinned packages; it asks the package index, so it needs a network
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two states of the environment: with what serving needs (`make serve`), and with the development tools (everything else).
SERVING := $(VENV)/.ready
READY := $(VENV)/.ready-dev
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

SEED ?= 1
HISTORIES ?= 1000
JOBS ?= 1

.PHONY: setup serve check test format faults gpu simulate lock sbom audit clean

setup: $(READY)

$(SERVING): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, this is {sys.version}")'
	@echo 'making $(VENV): torch and the other packages take some minutes'
	$(PYTHON) -m venv $(VENV)
	$(PIP) pip
	$(PIP) --build-constraint constraints.txt --editable '.[attest,cli,client,plot,torch]' --group api --group worker --group embedded
	touch $(SERVING)

$(READY): $(SERVING)
	$(PIP) --build-constraint constraints.txt --editable '.[hub,onnx]' --group traces --group archive --group dev
	touch $(READY)

serve: $(SERVING)
	@$(BIN)/python -m app.local

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The tests start hundreds of processes, which share the compiled files that the first one writes.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 2

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

faults: $(READY)
	$(BIN)/python -m tests.faults

lock:
	$(PYTHON) -m venv .lock
	.lock/bin/python -m pip install --quiet --constraint constraints.txt pip-tools==7.6.2
	for image in api worker; do \
	  $(PYTHON) deploy/lock/requirements.py $$image traces > .lock/$$image.in && \
	  .lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --constraint constraints.txt --no-header --no-annotate --strip-extras \
	    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file deploy/lock/$$image.txt .lock/$$image.in || exit 1; \
	done

# torch and torchvision are not in the lock (deploy/lock/requirements.py says why), but in the images.
sbom:
	$(PYTHON) -m venv .lock
	.lock/bin/python -m pip install --quiet --constraint constraints.txt cyclonedx-bom==7.5.0
	mkdir -p dist
	cp deploy/lock/api.txt deploy/lock/worker.txt .lock
	grep -E '^(torch|torchvision)==' constraints.txt >> .lock/worker.txt
	for image in api worker; do \
	  .lock/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible \
	    --output-file dist/sbom-$$image.json .lock/$$image.txt || exit 1; \
	done

simulate: $(READY)
	$(BIN)/python -m tests.simulation --seed $(SEED) --histories $(HISTORIES) --jobs $(JOBS)

# SMOOTHCERT_TEST_DEVICE is read by tests/support/engines.py.
gpu: $(READY)
	@$(BIN)/python -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "make gpu: torch finds no CUDA device here, so nothing was run")'
	SMOOTHCERT_TEST_DEVICE=cuda:0 $(BIN)/pytest tests/unit/test_engine.py tests/unit/test_engine_faults.py tests/unit/test_feed.py \
	  tests/unit/test_sizing.py tests/unit/test_compiled.py
	$(BIN)/python -m benchmarks engine --device cuda:0
	$(BIN)/python -m benchmarks feed --device cuda:0
	$(BIN)/python -m benchmarks runtimes --device cuda:0

audit:
	$(PYTHON) -m venv .audit
	.audit/bin/python -m pip install --quiet pip-audit
	.audit/bin/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip --progress-spinner off \
	  || { echo 'audit: a package has a known weakness, or (with "not found") the index could not be asked: see above'; exit 1; }

clean:
	rm -rf $(VENV) .audit .lock dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
