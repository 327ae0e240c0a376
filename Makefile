# make run    install into .venv and let the embedded model speak
# make test   install the test extras as well and run the tests
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PROMPT ?= Tom looked at the old house and

.PHONY: run test check format clean

run: $(VENV)/installed
	$(BIN)/moestream run --moe-stream --raw --temp 0.7 --seed 7 --max-tokens 120 --prompt "$(PROMPT)"

test: $(VENV)/installed-test
	$(BIN)/python -m pytest

# Lint, format and types; .ci/run calls this.
check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror core/*.cpp core/*.hpp tests/core/*.cpp

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i core/*.cpp core/*.hpp tests/core/*.cpp

SOURCES := pyproject.toml CMakeLists.txt $(wildcard core/*.cpp core/*.hpp) \
           $(shell find src -name '*.py' -o -name '*.gguf')

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# llama-cpp-python is compiled once (about ten minutes) and then comes from pip's wheel cache.
# Each level includes the ones before it.
$(VENV)/installed: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install .
	touch $(VENV)/installed

$(VENV)/installed-test: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install '.[test]'
	touch $(VENV)/installed $(VENV)/installed-test

$(VENV)/installed-dev: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install '.[dev]'
	touch $(VENV)/installed $(VENV)/installed-test $(VENV)/installed-dev

clean:
	rm -rf $(VENV) build dist
