# Each verb is `python3 deploy/dev.py VERB`; this file only spares the typing. `make` alone lists them.
PYTHON ?= python3
VERBS := setup demo test test-node lint proto pages lock bench conformance chaos soak attack testbed testbed-api compose-up compose-down

# Set on the command line of make (make chaos SEED=1 KILLS=30), read by the verbs from the environment.
export BACKEND SEED KILLS INSTANCES UPGRADE MINUTES ONLY

.DEFAULT_GOAL := help
.PHONY: help $(VERBS)

help:
	@$(PYTHON) deploy/dev.py

$(VERBS):
	@$(PYTHON) deploy/dev.py $@
