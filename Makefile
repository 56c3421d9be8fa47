# Everything a newcomer needs; each target sets up its own virtual environment first.
#   make demo   the main job on a sample model
#   make test   what decides correctness, in minutes        make test-all  slow tests too, as CI does
#   make lint   format, style, types, imports, size, words  make check  lint and test
#   make generated   writes what follows from code and is in git: schemas, tables of docs
#   make docs   the manual as a site in build/site, with a page for each rule
#   make pictures what a terminal and a browser show, for the README
#   make budget      figures of the code now and before its consolidation; COMMITS="v1 HEAD" for others
#   make properties  what must hold of every job, each on 10,000 new random models; EXAMPLES=500 for fewer
#   make mutants     small faults are put into the package; those that no test notices are shown
#   make zoo    80 architectures from torch to engine in every mode; writes docs/developers/networks.md
#   make foreign  what other tools quantize and export, from their file to an engine; writes docs/developers/foreign.md
#   make bindings fetches NVIDIA's Python bindings (8 MB) for tests/engines/tensorrt/test_parsing_product.py, which skips what needs them
#   make refusals    what TensorRT for RTX refuses, and whether it is explained; writes docs/developers/refusals.md
#   make contrib     what TensorRT for RTX makes of ONNX Runtime's contrib operators; writes docs/developers/contrib_operators.md
#   make same SINCE=COMMIT  what 40 models print and write through every command, against that commit
#   make corpus every command on every ONNX file that the installed packages bring, and 5,000 damaged ones
#   make wheel  builds wheel and sdist, and uses the wheel in an empty environment; CI does so too
#   make oldest the commands with the oldest packages that pyproject.toml allows; UV=/path/to/uv
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := .demo

# exact versions, of build tools too
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export UV_CONSTRAINT := $(PIP_CONSTRAINT)
export UV_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)
COMMA := ,

# tests start hundreds of processes, which read compiled modules
unexport PYTHONDONTWRITEBYTECODE

# onnxruntime-gpu and tensorrt-rtx also serve machines without a GPU; elsewhere the CPU packages do
EXTRA  := $(shell [ "$$(uname -sm)" = "Linux x86_64" ] && echo gpu || echo cpu)

.PHONY: pictures setup demo test test-all lint format check budget generated docs bench bindings properties mutants same corpus refusals contrib peers zoo foreign gpu-test vendored wheel oldest clean

setup: $(READY)

# $(1) the folder, $(2) what is installed. uv is three times as fast as pip, which serves where the index has no uv.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "qdqtool needs Python 3.11 or later: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(1) || \
	  { rm -rf $(1); echo "python3 -m venv failed: on Debian and Ubuntu 'apt-get install python3-venv'," \
	    "elsewhere 'pip install virtualenv && virtualenv $(1)'; then run make again"; exit 1; }
	@$(1)/bin/python -m pip install -q --disable-pip-version-check uv 2>/dev/null && \
	  $(1)/bin/python -m uv pip install --python $(1)/bin/python -e '$(2)' || \
	  $(1)/bin/python -m pip install --disable-pip-version-check -e '$(2)'
	@touch $(1)/.ready
endef

$(READY): pyproject.toml constraints.txt
	$(call environment,$(VENV),.[$(EXTRA)$(COMMA)dev])

# 33 packages with uv, measured on 2026-11-28 on Linux x86-64
$(DEMO)/.ready: pyproject.toml constraints.txt
	@echo "Installing what qdqtool needs to run into $(DEMO): 0.44 GB to download, 0.97 GB on disk."
	$(call environment,$(DEMO),.[$(EXTRA)])

demo: $(DEMO)/.ready
	$(DEMO)/bin/python sample_models/demo.py

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal --junit-xml=.junit.xml

# slow tests too, and those of the mutation tester
test-all: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal --junit-xml=.junit.xml -m "not large" tests tools/mutation/tests

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/budget.py
	$(BIN)/python tools/prose.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint test

generated: $(READY)
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests $(BIN)/python tools/generated.py

budget: $(READY)
	$(BIN)/python tools/budget.py --history $(COMMITS)

# what MkDocs needs, in the environment of the tests
$(VENV)/.docs: $(READY)
	$(BIN)/python -m uv pip install -q --python $(BIN)/python -e '.[docs]' 2>/dev/null || \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python -m qdqtool.reports.markdown.rules docs/rules
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# needs Chromium
pictures: $(READY)
	$(BIN)/python tools/pictures.py

bench: $(READY)
	for file in $(filter-out benchmarks/compare.py benchmarks/contrib_operators.py benchmarks/corpus.py benchmarks/foreign.py benchmarks/large_models.py benchmarks/peers.py benchmarks/refusals.py benchmarks/zoo.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$file || exit 1; done

properties: $(READY)
	QDQTOOL_EXAMPLES=$(or $(EXAMPLES),10000) $(BIN)/python -m pytest -n auto --dist worksteal tests/properties tests/support $(ARGS)

# ONLY="diff qdqtool/models/plan.py": some packages or modules; CHANGED=main~20: lines that changed since; ARGS=--help: more
mutants: $(READY)
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests $(BIN)/python -m tools.mutation $(ONLY) $(if $(CHANGED),--changed $(CHANGED)) $(ARGS)

# ARGS=--write-stubs: the type stubs in tests/support/tensorrt_api/stubs anew, too
bindings: $(READY)
	mkdir -p .bindings
	PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m support.tensorrt_api.wheels .bindings $(ARGS)

same: $(READY)
	$(BIN)/python tools/same.py $(SINCE) $(ARGS)

# ARGS=--nodes: ONNX's node tests alone; see benchmarks/corpus.py
corpus: $(READY)
	$(BIN)/python -W ignore benchmarks/corpus.py $(or $(ARGS),--nodes --files)
	$(BIN)/python -W ignore benchmarks/corpus.py $(or $(ARGS),--nodes --files) --mutations 5000

# the libraries of the HTML page, from the packages that qdqtool/reports/page/assets/vendored/vendored.json names; needs npm
vendored: $(READY)
	PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m support.vendored

# ARGS="--networks FILES": networks too, as they are and quantized; see benchmarks/refusals.py
refusals: $(READY)
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests $(BIN)/python -W ignore benchmarks/refusals.py --markdown docs/developers/refusals.md $(ARGS)

contrib: $(READY)
	PYTHONPATH=$(CURDIR) $(BIN)/python -W ignore benchmarks/contrib_operators.py --markdown docs/developers/contrib_operators.md

# MODELOPT=/path/to/python of an environment with nvidia-modelopt[onnx] adds Model Optimizer; ARGS=--quick: 5 minutes
peers: $(READY)
	$(BIN)/python benchmarks/peers.py $(if $(MODELOPT),--modelopt $(MODELOPT)) $(ARGS)

# ONLY=yolo,bert: some networks; TORCH=/path/to/python of an environment with the extra zoo, else .zoo is made for it
TORCH ?= .zoo/bin/python
.zoo/bin/python:
	$(PYTHON) -m venv .zoo
	$@ -m pip install -q -e '.[zoo]'

zoo: $(READY) $(TORCH)
	PYTHONPATH=$(CURDIR) $(BIN)/python benchmarks/zoo.py --torch $(TORCH) --folder .zoo/networks --json .zoo/results.json \
	  --markdown docs/developers/networks.md $(if $(ONLY),--only $(ONLY)) $(ARGS)

# ONLY=brevitas,onnxruntime.nbits_8: some tools or models; TORCH as for zoo; environments of the tools are in .foreign
foreign: $(READY) $(TORCH)
	PYTHONPATH=$(CURDIR) $(BIN)/python benchmarks/foreign.py --torch $(TORCH) --folder .foreign \
	  --json .foreign/results.json --markdown docs/developers/foreign.md $(if $(ONLY),--only $(ONLY)) $(ARGS)

gpu-test: $(READY)
	$(BIN)/python -m pytest -m gpu -rs tests/engines/gpu

wheel: $(READY)
	PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m support.installed dist

UV ?= uv
oldest: $(READY)
	rm -rf .oldest
	$(UV) venv -q --python $(PYTHON) .oldest
	$(UV) pip install -q --python .oldest --resolution lowest-direct '.[cpu]'
	PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m support.installed --python .oldest/bin/python

clean:
	rm -rf $(VENV) $(DEMO) .same .junit.xml .oldest build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .mutants .zoo .foreign .bindings
