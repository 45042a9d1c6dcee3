# `make demo` and `make test` each do their own set-up; all else is for those who work on recordmill.

PYTHONS := python3.11 python3.12 python3.13
# The first that runs and makes virtual environments. pyenv has a shim for each version that it has
# installed, which fails for those that are not chosen.
ifndef PYTHON
PYTHON := $(shell for python in $(PYTHONS); do \
    { $$python -c 'import ensurepip, venv'; } 2>/dev/null && echo $$python && break; done)
endif
VENV ?= .venv
BIN := $(VENV)/bin
CORE := $(VENV)/core.stamp
FAST := $(VENV)/fast.stamp
DEV := $(VENV)/dev.stamp
UV_VERSION := 0.13.9
JOB_SERVER := build/flink-job-server.jar
FLINK := build/flink/stamp
FLINK_VERSION := 1.19.3
OPERATOR := build/flink-kubernetes-operator-api.jar
PEERS := build/peers/stamp
TORCH_PEERS := build/torch-peers/stamp
TFT := build/tft/stamp
# One test process more than there are cores, as tests wait for disks and for processes that they start.
WORKERS = $$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))
TORCH := build/torch/stamp
GRAIN := build/grain/stamp
PRISM := build/prism/prism
# `$(INSTALL) PYTHON ARGUMENTS` does for that Python what `pip install ARGUMENTS` does, with uv if it is
# there, which takes a tenth of pip's processor time.
# Python compiles what is imported. To compile all that is installed takes minutes: of Airflow's 32,000
# modules its test imports a few thousand.
INSTALL = @install() { \
        python=$$1; shift; \
        echo "pip install $$*"; \
        { test -x $(BIN)/uv && $(BIN)/uv pip install --python "$$python" --quiet --no-compile "$$@"; } || \
            $(BIN)/python -m pip --python "$$python" install --quiet --no-compile "$$@"; \
    }; install
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export UV_HTTP_TIMEOUT ?= 180

.PHONY: help setup setup-fast demo test test-others test-fast test-flink test-flink-others \
    cluster-test golden test-tft test-torch test-airflow test-browser test-croissant test-targets test-prism prism flink \
    flink-job-server peers coverage lint docs bench soak clean other-python
.DELETE_ON_ERROR:
# Without bytecode, each of the many processes that these start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo 'make demo    build a small dataset, verify it, show what is in it and draw it'
	@echo 'make test    run each test, slow ones with one set of parameters; on Flink too, where Java'
	@echo '             and Maven are'
	@echo 'make test-others    run the rest of them: long tests, slow ones with other parameters'
	@echo 'make golden    record what comes of the commands of the golden matrix, to be read as a diff'
	@echo 'make test-fast    run one set of parameters of each test that neither imports TensorFlow nor starts processes'
	@echo 'make coverage    run the tests without Flink, and show what they miss'
	@echo 'make lint    ruff, mypy, and which layer may import which'
	@echo 'make docs    write docs/api.md from docstrings'
	@echo 'make setup   install recordmill and all of the above into .venv'
	@echo 'make test-flink    run the tests on a Flink cluster that is started for them'
	@echo 'make test-flink-others    run the rest of the tests on Flink'
	@echo 'make cluster-test    run jobs and faults on a cluster of several machines (root)'
	@echo 'make test-tft    run the tests of --preprocessing-fn, with tensorflow-transform'
	@echo 'make test-torch    run the tests of what is for PyTorch and Grain'
	@echo 'make test-browser    run the tests of the report and of notebooks in Chromium'
	@echo 'make test-croissant    run the tests of croissant.json with mlcroissant'
	@echo 'make test-targets    read datasets with the decoders of Model Garden, FiftyOne and TFX'
	@echo 'make test-prism    run a job of each data type on Prism, another runner of Beam; needs Go'
	@echo 'make test-airflow    run the DAG of deploy/airflow in an Airflow of its own'
	@echo 'make flink-job-server    build the jar that Beam would download'
	@echo 'make bench   measure what the README states (long, root)'
	@echo 'make soak    the runs too long for make test: sameness, kills, power cuts, faults, fuzz, Flink (root)'
	@echo 'make clean   remove .venv and what demo and tests left'
	@echo 'PYTHON=... with any of them: the Python to use instead of the first of $(PYTHONS);'
	@echo 'VENV=...: where to install instead of .venv, such as for a second Python'

setup: $(DEV)

# What `make test-fast` needs.
setup-fast: $(FAST)

demo: $(CORE)
	rm -rf demo-out
	$(BIN)/recordmill images --input examples/clothing --output demo-out --size 128 \
	    --splits train=0.8,validation=0.1,test=0.1 --balance oversample \
	    --augment flip,crop,brightness --seed 7
	$(BIN)/recordmill verify --dataset demo-out --deep
	$(BIN)/recordmill inspect --dataset demo-out
	$(BIN)/recordmill inspect --dataset demo-out --sheet demo-out-sheet.png

# Slow tests with one set of parameters only: test-others and test-flink-others run the rest.
test: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) -p tests.one_of_each
	@if command -v java >/dev/null && command -v mvn >/dev/null; then $(MAKE) test-flink; else \
	    echo 'make test: the tests on Flink were left out: they need Java 17 and Maven'; fi

# PART=K/N: every Nth of them, from the Kth on.
test-others: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) -p tests.one_of_each --others --part $(or $(PART),0/1)

golden: $(DEV)
	$(BIN)/python -m tests.golden --record
	git diff --stat -- tests/golden/recorded.jsonl

# make test-fast PYTHON=python3.13 VENV=build/py313
test-fast: $(FAST)
	$(BIN)/python -m pytest -n $(WORKERS) -p tests.fast_modules -p tests.one_of_each --fewest

test-flink: $(DEV) $(FLINK) $(JOB_SERVER) $(OPERATOR)
	$(BIN)/python -m pytest -n 3 --dist loadfile -p tests.one_of_each tests/flink

# As root: it makes network namespaces.
cluster-test: $(DEV) $(FLINK) $(JOB_SERVER)
	$(BIN)/python -m pytest tests/cluster

test-flink-others: $(DEV) $(FLINK) $(JOB_SERVER) $(OPERATOR)
	$(BIN)/python -m pytest -n 3 --dist loadfile -p tests.one_of_each --others tests/flink

coverage: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) --cov

lint: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The page of the API, from docstrings.
docs: $(DEV)
	$(BIN)/python -m tests.api_page

bench: $(DEV) $(FLINK) $(JOB_SERVER) $(PEERS) $(TORCH_PEERS)
	$(BIN)/python -m benchmarks.images
	$(BIN)/python -m benchmarks.images --shards
	$(BIN)/python -m benchmarks.input_forms
	$(BIN)/python -m benchmarks.text
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python -m benchmarks.tables --encoder
	$(BIN)/python -m benchmarks.tables --scale
	$(BIN)/python -m benchmarks.video
	$(BIN)/python -m benchmarks.audio
	$(BIN)/python -m benchmarks.reuse
	$(BIN)/python -m benchmarks.resume
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.loading --torch
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.values
	$(BIN)/python -m benchmarks.shuffle
	$(BIN)/python -m benchmarks.flink
	$(BIN)/python -m benchmarks.cluster

soak: $(DEV) $(FLINK) $(JOB_SERVER) $(TORCH)
	$(MAKE) test-others
	$(MAKE) test-fast PYTHON=python3.12 VENV=build/py312
	RECORDMILL_BEAM_PATCHES=0 $(MAKE) test-fast PYTHON=python3.13 VENV=build/py313
	$(BIN)/python -m pytest -n $(WORKERS) -m hypothesis --hypothesis-profile thorough
	$(BIN)/python -m tests.golden --workers 2
	$(BIN)/python -m tests.soak.sameness
	$(BIN)/python -m tests.soak.kills
	PYTHONPATH=$(CURDIR)/build/torch:$(CURDIR)/build/grain $(BIN)/python -m tests.soak.training
	$(BIN)/python -m tests.soak.publishing
	$(BIN)/python -m tests.soak.power
	$(BIN)/python -m tests.soak.faults
	$(BIN)/python -m tests.soak.store_faults
	$(BIN)/python -m tests.soak.reuse
	$(BIN)/python -m tests.soak.reuse --runner flink --sequences 6
	$(BIN)/python -m tests.soak.fuzz
	$(BIN)/python -m tests.soak.fuzz_datasets
	$(BIN)/python -m tests.soak.fuzz_commands
	$(BIN)/python -m tests.soak.texts
	$(BIN)/python -m tests.soak.series
	$(BIN)/python -m tests.soak.arrays
	$(BIN)/python -m tests.soak.archives
	$(BIN)/python -m tests.soak.diff
	$(BIN)/python -m tests.soak.learned
	$(BIN)/python -m tests.soak.damaged_jpegs
	$(BIN)/python -m tests.soak.video
	$(BIN)/python -m tests.soak.speech
	$(BIN)/python -m tests.soak.examples
	$(BIN)/python -m tests.flink.soak
	$(BIN)/python -m tests.cluster.soak
	$(BIN)/python -m tests.cluster.faults
	$(MAKE) test-prism

clean:
	rm -rf .venv build *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache \
	    .import_linter_cache .hypothesis demo-out demo-out-sheet.png

# The demo needs no TensorFlow, which is most of what the tests install. Whose pip has an index of its own
# gets no uv, because uv would not know of it.
$(CORE): pyproject.toml setup.py
	@test -n '$(PYTHON)' || { \
	    echo 'recordmill needs Python 3.11, 3.12 or 3.13, and none of $(PYTHONS) runs here' \
	        'with its venv module: install one (Debian 12: apt install python3.11-venv; Ubuntu 24.04:' \
	        'apt install python3.12-venv), or say where one is: make PYTHON=/path/to/python3.12 demo' \
	        >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	    echo 'recordmill needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is none of them or does not run:' \
	        'install one, or say where one is: make PYTHON=/path/to/python3.12 demo' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo '$(PYTHON) cannot make virtual environments: install its venv module (Debian and' \
	        'Ubuntu: apt install python3.11-venv, or 3.12, or 3.13)' >&2; exit 1; }
	@echo "recordmill: $$($(PYTHON) --version) ($(PYTHON)) goes into $(VENV)"
	@$(PYTHON) -m venv $$([ ! -x $(BIN)/python ] \
	    || [ "$$($(BIN)/python --version)" = "$$($(PYTHON) --version)" ] || echo --clear) $(VENV)
	@$(BIN)/python -m pip config list | grep index-url >/dev/null || \
	    $(BIN)/python -m pip install --quiet --only-binary=:all: uv==$(UV_VERSION) || true
	$(INSTALL) $(BIN)/python --editable .
	@touch $@

# Who asks for a Python gets it, also where the environment was made with another.
ifneq ($(filter command environment,$(firstword $(origin PYTHON))),)
ifneq ($(shell $(BIN)/python --version 2>/dev/null),$(shell $(PYTHON) --version 2>/dev/null))
$(CORE): other-python
endif
endif
other-python:

flink: $(FLINK)

flink-job-server: $(JOB_SERVER)

peers: $(PEERS) $(TORCH_PEERS)

prism: $(PRISM)

test-prism: $(DEV) $(PRISM)
	$(BIN)/python -m pytest tests/prism

# The Prism of the installed Beam. To compile it takes four minutes of CPU.
$(PRISM): | $(CORE)
	@command -v go >/dev/null || { echo 'this needs Go 1.26 or later' >&2; exit 1; }
	GOBIN=$(CURDIR)/$(@D) go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$$($(BIN)/python -c \
	    'from importlib.metadata import version; print(version("apache-beam"))')

# With Beam's operator, which wants Google's; its Beam is not ours.
AIRFLOW := build/airflow/stamp

test-airflow: $(DEV) $(AIRFLOW)
	$(BIN)/python -m pytest tests/airflow

$(AIRFLOW): | $(CORE)
	rm -rf build/airflow
	$(BIN)/python -m venv --without-pip build/airflow
	$(INSTALL) build/airflow/bin/python \
	    apache-airflow==3.3.2 apache-airflow-providers-apache-beam==6.3.1 \
	    apache-airflow-providers-google apache-airflow-providers-standard
	@touch $@

# It brings Google's libraries and pandas, which nothing else here is to have.
test-tft: $(TFT) $(FLINK) $(JOB_SERVER)
	build/tft/bin/python -m pytest tests/tft

$(TFT): setup.py pyproject.toml | $(CORE)
	rm -rf build/tft
	$(BIN)/python -m venv --without-pip build/tft
	$(INSTALL) build/tft/bin/python --editable '.[fast,tft]'
	@touch $@

test-torch: $(DEV) $(TORCH)
	PYTHONPATH=$(CURDIR)/build/torch:$(CURDIR)/build/grain $(BIN)/python -m pytest tests/torch

# Chromium and its driver: Debian and Ubuntu: apt install chromium chromium-driver.
BROWSER := build/browser/stamp

NOTEBOOK := build/notebook/stamp

test-browser: $(DEV) $(BROWSER) $(NOTEBOOK)
	PYTHONPATH=$(CURDIR)/build/browser $(BIN)/python -m pytest tests/browser

$(BROWSER): | $(CORE)
	rm -rf build/browser
	$(INSTALL) $(BIN)/python --target build/browser \
	    selenium==4.51.0 axe-core-python==0.1.0
	@touch $@

$(NOTEBOOK): | $(CORE)
	rm -rf build/notebook
	$(INSTALL) $(BIN)/python --target build/notebook \
	    ipykernel==7.4.0 nbclient==0.11.0
	@touch $@

CROISSANT := build/croissant/stamp

test-croissant: $(DEV) $(CROISSANT)
	PYTHONPATH=$(CURDIR)/build/croissant $(BIN)/python -m pytest tests/croissant

# Of what mlcroissant needs only what .venv lacks.
$(CROISSANT): | $(CORE)
	rm -rf build/croissant
	$(INSTALL) $(BIN)/python --no-deps --target build/croissant \
	    mlcroissant==1.1.1 decorator==5.3.1 jsonpath-rw==1.4.0 pandas==3.1.1 ply==3.11 rdflib==7.6.0
	@touch $@

TARGETS := build/targets/stamp

test-targets: $(DEV) $(TARGETS)
	PYTHONPATH=$(CURDIR)/build/targets $(BIN)/python -m pytest tests/targets

# Their modules are imported one by one (tests/targets/partial_imports.py): with their dependencies these
# packages would take gigabytes, an older TensorFlow and MongoDB. 50 MB to download, 200 MB on disk.
# Of ml-metadata, whose wheels end with Python 3.11, only protocol buffers in Python are imported.
$(TARGETS): | $(CORE)
	rm -rf build/targets
	$(INSTALL) $(BIN)/python --no-deps \
	    --target build/targets tf-models-official==2.20.0 tf-keras==2.21.0 \
	    tf-object-detection-api==0.1 tf-slim==1.1.0 \
	    fiftyone==1.22.1 voxel51-eta==0.17.0 mongoengine==0.29.3 pymongo==4.9.2 \
	    tfx==1.21.0 ml-pipelines-sdk==1.21.0
	$(BIN)/python -m pip install --quiet --no-compile --no-deps \
	    --target build/targets --only-binary=:all: --python-version 3.11 \
	    --platform manylinux2014_x86_64 ml-metadata==1.17.1
	@touch $@

# The rest of what it needs, such as array-record, is in .venv.
$(GRAIN): | $(CORE)
	rm -rf build/grain
	$(INSTALL) $(BIN)/python --no-deps --target build/grain grain==0.2.18 portpicker==1.6.0
	@touch $@

# On PyPI PyTorch for Linux is that for CUDA. What its libraries are linked with has to be there, GPU
# or not; the rest, such as triton, is left out. Of Python it imports nothing else that .venv lacks.
# The versions are those that PyTorch asks for. 2.3 GB to download, 3.9 GB on disk.
$(TORCH): | $(CORE) $(GRAIN)
	rm -rf build/torch
	$(INSTALL) $(BIN)/python --no-deps \
	    --no-cache-dir --target build/torch torch==2.15.0 nvidia-cublas==13.4.1.3 \
	    nvidia-cuda-cupti==13.2.86 nvidia-cuda-nvrtc==13.2.86 nvidia-cuda-runtime==13.2.86 \
	    nvidia-cudnn-cu13==9.26.0.51 nvidia-cufft==12.2.0.57 nvidia-cufile==1.17.1.22 \
	    nvidia-cusparse==12.7.10.12 nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7 \
	    nvidia-nvjitlink==13.5.37 nvidia-nvshmem-cu13==3.7.2 \
	    torchdata==0.11.0
	@touch $@

# Who benchmarks.text and benchmarks.tables compare with: the first brings Google's libraries, the
# second pandas.
$(PEERS): | $(CORE)
	rm -rf build/peers
	$(BIN)/python -m venv --without-pip build/peers
	$(INSTALL) build/peers/bin/python \
	    'tensorflow-transform>=1.21,<1.22' 'datasets>=5,<6' 'tokenizers>=0.21,<1' \
	    'apache-beam>=2.77,<2.78' 'tensorflow>=2.21,<2.22' \
	    'tfrecord>=1.14,<2' 'pillow>=12,<13' 'opencv-python-headless>=4.10,<6'
	@touch $@

# The libraries of benchmarks.loading --torch, with recordmill. 5 GB on disk.
$(TORCH_PEERS): | $(CORE)
	rm -rf build/torch-peers
	$(BIN)/python -m venv --without-pip build/torch-peers
	$(INSTALL) build/torch-peers/bin/python --editable . \
	    torch==2.15.0 torchvision==0.29.2 grain==0.2.18 webdataset==1.0.2 \
	    mosaicml-streaming==0.13.0 litdata==0.2.76
	@touch $@

# Flink's programs come with its Python package; nothing of that package is imported.
$(FLINK): | $(CORE)
	rm -rf build/flink
	$(INSTALL) $(BIN)/python --no-deps \
	    --target build/flink apache-flink==$(FLINK_VERSION) apache-flink-libraries==$(FLINK_VERSION)
	@touch $@

$(JOB_SERVER): deploy/flink-job-server/pom.xml
	@command -v mvn >/dev/null || { echo 'this needs Maven (Debian and Ubuntu: apt install maven)' >&2; exit 1; }
	mkdir -p build/flink-job-server
	cp $< build/flink-job-server
	mvn --quiet --batch-mode --file build/flink-job-server package
	mv build/flink-job-server/target/flink-job-server.jar $@

# It has the schema of the Flink operator's resources.
$(OPERATOR):
	mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
	    -Dartifact=org.apache.flink:flink-kubernetes-operator-api:1.10.0 -Dmdep.stripVersion \
	    -DoutputDirectory=$(CURDIR)/$(@D)

$(FAST): $(CORE)
	$(INSTALL) $(BIN)/python --editable '.[fast]'
	@touch $@

$(DEV): $(CORE)
	$(INSTALL) $(BIN)/python --editable '.[dev]'
	@touch $@
