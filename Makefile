# Entry points; the contracts are in each target's comment. Recipes only call scripts.
SHELL := /bin/sh
PY := .venv/bin/python

.PHONY: help install up test test-long check bench lock clean

help:
	@sed -n 's/^#: //p' Makefile

#: make install    fill .venv from the lock files and add missing system packages
install:
	@sh .ci/install

#: make up         run everything on this machine: HOST PORT LAB_NODES LAB_LAUNCH STATE_DIR HANDS
up:
	@sh .ci/install >&2
	@exec $(PY) -m console.embedded.run_all

#: make test       all tests but the long ones; PYTEST_ARGS is passed on
test:
	@sh .ci/install >&2
	$(PY) -m pytest -rs -m "not long" -n auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

#: make test-long  the long tests: full counts, sizes and real times
test-long:
	@sh .ci/install >&2
	TIME_SCALE=1 $(PY) -m pytest -rs -m long $(PYTEST_ARGS)

#: make check      lint, types, layers and pure tests; no database, no network
check:
	@sh .ci/install >&2
	@sh .ci/check

#: make bench      measure against the targets: ONLY=T1,T8
bench:
	@sh .ci/install >&2
	@exec $(PY) -m tests.bench

#: make lock       resolve the lock files anew
lock:
	@sh .ci/lock
