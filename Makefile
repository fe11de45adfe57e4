# `make demo` shows Operator at work, `make test` checks it. Needs Python 3.11+, make and a package
# index; everything goes into .venv, by the hashes of requirements.lock. Paths below are relative
# on purpose: a checkout may lie anywhere, also in a folder with spaces in its name.

PYTHON ?= python3
ARGS ?=
# What turns the pages of the demo; without it you do.
AUTO ?= --auto
WORKERS ?= 5
# With what `make quick` compares the tree.
BASE := HEAD
# What tests ask for beside Python; the driver of the browser needs libatomic1. A kubectl from
# elsewhere is used as it is, because Debian's package cannot be installed beside it.
DEBIAN_PACKAGES := bubblewrap busybox-static chromium dbus-daemon default-jdk-headless docker.io \
	fish gawk git jq ksh libatomic1 maven mawk mksh openssh-client openssh-server original-awk \
	procps python3 strace tmux util-linux zsh

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo extras test quick check lint style test-system test-crash test-faults test-slow \
	repeat size voice tables gallery docs dist release lock clean

# Another project's Python settings must not reach into this one.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH VIRTUAL_ENV

# A Python named by the user (make demo PYTHON=python3.12) must be the one of .venv.
named := $(if $(filter file,$(origin PYTHON)),,--python "$(PYTHON)")
setup := .ci/setup_venv.py $(named)

spread = --workers $(WORKERS)

# Who has no cache of types yet is not kept waiting for one; `make lint` writes it.
once = $(if $(wildcard .mypy_cache),,--cache-dir=/dev/null)

# $(call ready,LEVEL): milliseconds when .venv is in place, otherwise an install.
ready = .venv/bin/python -E -S $(setup) --check $(1) 2>/dev/null \
	|| { $(fit) && "$(PYTHON)" -E -s $(setup) $(1); }

# Without output when $(PYTHON) can make .venv, otherwise one sentence.
fit = { found=$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) \
	|| { echo 'Operator needs Python 3.11 or newer and "$(PYTHON)" does not start:' \
		'install one, or name one: make demo PYTHON=/path/to/python3.12' >&2; false; }; } \
	&& { "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "Operator needs Python 3.11 or newer and \"$(PYTHON)\" is $$found:" \
		"name a newer one: make demo PYTHON=/path/to/python3.12" >&2; false; }; } \
	&& { "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null \
	|| { echo "\"$(PYTHON)\" cannot make virtual environments:" \
		"install its venv module (Debian: apt install python$$found-venv)" >&2; false; }; }

help:
	@echo 'make demo         a real cluster breaks; Operator finds, repairs, proves (ARGS=--plain)'
	@echo 'make extras       install every extra into .venv: etcd, PostgreSQL, the web console ...'
	@echo 'make test         every check and test; few that need Docker (ARGS="-k ledger" chooses)'
	@echo 'make quick        style, and the tests near what has changed (a minute; BASE=main)'
	@echo 'make check        style, types, layers and tidiness only'
	@echo 'make test-system  as root on Debian: install what tests need, run all, forbid skips'
	@echo 'make test-crash   writers and operators killed 900 times (minutes)'
	@echo 'make test-faults  every fault of every rig: it breaks its invariants, and heals (minutes)'
	@echo 'make test-slow    every slow test, including the two above (half an hour)'
	@echo 'make repeat       make test on fresh clones: times and failures (ARGS="--runs 10 --load")'
	@echo 'make size         lines, modules, functions, helpers used once (ARGS=--incident: files)'
	@echo 'make voice        words and names that plain ones replace (ARGS=docs lists them)'
	@echo 'make tables       compile the rules and the tables of the gate after a change of them'
	@echo 'make gallery      take the pictures of the README and the docs again, of a real incident'
	@echo 'make docs         build the documentation as a site into site/ (ARGS=FOLDER)'
	@echo 'make dist         build the wheels of all distributions into dist/ (ARGS=FOLDER)'
	@echo 'make release      dist, with checks, checksums, SBOM and signature (ARGS="--key FILE")'
	@echo 'make lock         write requirements.lock from the pyproject files (ARGS=--upgrade)'
	@echo 'make clean        remove .venv and what tools left behind'
	@echo 'PYTHON=python3.12 chooses the Python, WORKERS=5 the number of test processes'

demo:
	@$(call ready,demo)
	@.venv/bin/operator demo $(AUTO) $(ARGS)

extras:
	@$(call ready,all)

# What takes a moment; types take longer, and are checked while the tests run.
style:
	@$(call ready,all)
	@echo '== style' && .venv/bin/ruff check --quiet . && .venv/bin/ruff format --quiet --check .
	@echo '== layers' && .venv/bin/lint-imports --no-logo

lint: style
	@echo '== types' && .venv/bin/mypy

check: lint
	@echo '== tidiness' && .venv/bin/python -m pytest -q $(spread) tests/tidy

test: style
	@sh tests/tools/debian.sh
	@echo '== tests, and types beside them' && .venv/bin/python .ci/beside.py .venv/bin/mypy $(once) \
		-- .venv/bin/python -m pytest -q -p tests.durations $(spread) tests $(ARGS)

# Types only with a cache of them: without, they alone take longer than all this is meant to.
quick: style
ifneq ($(wildcard .mypy_cache),)
	@echo '== near tests, and types beside them' && .venv/bin/python .ci/beside.py .venv/bin/mypy \
		-- .venv/bin/python .ci/affected.py --base "$(BASE)" $(ARGS)
else
	@echo '== near tests (no types: they are checked as well after a first `make lint`)' \
		&& .venv/bin/python .ci/affected.py --base "$(BASE)" $(ARGS)
endif

test-system: lint
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $(DEBIAN_PACKAGES) \
			$$(command -v kubectl >/dev/null || echo kubernetes-client); \
	else \
		echo 'Not root, or no apt-get: nothing is installed, skips are failures all the same.'; \
	fi
	@$(call ready,docs)
	@.venv/bin/python -m tests.engines.compose
	@.venv/bin/python -m tests.engines.base
	@.venv/bin/python -m tests.tools.pd
	@.venv/bin/python -m tests.tools.servers
	@.venv/bin/python -m tests.tools.kafka
	@.venv/bin/python -m tests.tools.helm
	@.venv/bin/python -m tests.subjects.kubernetes.rig --build
	@echo '== tests, no skips' && OPERATOR_FORBID_SKIPS=1 \
		.venv/bin/python -m pytest -q -m 'system or not slow' $(spread) tests $(ARGS)

test-crash: lint
	@echo '== crash tests' \
		&& .venv/bin/python -m pytest -q $(spread) tests/crash -m slow $(ARGS)

test-faults: lint
	@echo '== every fault of every rig' && .venv/bin/python -m pytest -q $(spread) \
		tests/app tests/e2e tests/evals tests/lab tests/services tests/subjects -m slow $(ARGS)

test-slow: lint
	@echo '== slow tests' && .venv/bin/python -m pytest -q $(spread) \
		tests -m slow $(ARGS)

repeat:
	@"$(PYTHON)" .ci/repeat.py $(ARGS)

size:
	@$(if $(findstring --incident,$(ARGS)),$(call ready,all))
	@"$(PYTHON)" .ci/size.py $(ARGS)

voice:
	@"$(PYTHON)" .ci/voice.py $(ARGS)

tables:
	@$(call ready,all)
	@.venv/bin/python -m operator_sre.gate.grammar.compile
	@.venv/bin/python -m operator_sre.gate.policy.compile

gallery:
	@$(call ready,all)
	@.venv/bin/python -m tests.faces.gallery
	@.venv/bin/python -m tests.faces.web.gallery

docs:
	@$(call ready,docs)
	@.venv/bin/python .ci/pages.py $(ARGS)

dist:
	@$(call ready,all)
	@.venv/bin/python .ci/dist.py $(ARGS)

release:
	@$(call ready,all)
	@.venv/bin/python .ci/release.py $(ARGS)

lock:
	@$(fit)
	@"$(PYTHON)" -E -s $(setup) lock $(ARGS)

clean:
	@rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
