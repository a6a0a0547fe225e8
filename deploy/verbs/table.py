"""Which verbs there are, and what each says of itself.

Called by deploy/dev.py only. Holds: a verb is a function without arguments that answers an exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from verbs.bootstrap import setup
from verbs.lint import lint
from verbs.lock import lock
from verbs.pages import pages
from verbs.protos import proto
from verbs.shell import VerbFailed, say
from verbs.stack import compose_down, compose_up, demo
from verbs.testbed import testbed, testbed_api
from verbs.tests import attack, bench, chaos, conformance, soak, test, test_node

VERBS: Final[dict[str, tuple[Callable[[], int], str]]] = {
    "demo": (demo, "start everything here, run real workloads, show what happens, leave nothing behind"),
    "test": (test, "run every test, on a real Kafka and a real PostgreSQL"),
    "test-node": (test_node, "run Muster on two real kubelets of this machine (root, and what testbed builds)"),
    "setup": (setup, "install the locked packages and every room into .venv"),
    "lint": (lint, "ruff, mypy, the arrows between rooms, buf, and whether what is generated is fresh"),
    "proto": (proto, "generate the Python code of protos/ into services/contracts"),
    "pages": (pages, "write the language's reference page and its definitions for Kubernetes from the catalogue"),
    "lock": (lock, "resolve every dependency anew into requirements.lock and requirements-torch.lock"),
    "bench": (bench, "run the benchmarks"),
    "chaos": (chaos, "kill parts under load and judge what was lost (SEED=1 KILLS=30 BACKEND=apiserver)"),
    "conformance": (
        conformance,
        "play what every back end of the agent does (BACKEND=local, fake, apiserver or node)",
    ),
    "soak": (soak, "run a stack under steady load and say what of it grows (MINUTES=60)"),
    "attack": (attack, "try every scripted attack on running stacks and judge whether they held (ONLY=B4)"),
    "testbed": (testbed, "build Kubernetes from Go modules, for the tests that ask a real one"),
    "testbed-api": (testbed_api, "build its API server alone, where Go is found: the tests of `test` that ask one"),
    "compose-up": (compose_up, "start Kafka and PostgreSQL in containers"),
    "compose-down": (compose_down, "stop them"),
}
CANCELLED: Final = 130


def usage() -> str:
    """The list of verbs, for a person."""
    width = max(map(len, VERBS))
    lines = [f"  {name:<{width}}  {meaning}" for name, (_, meaning) in VERBS.items()]
    return "\n".join(["usage: make VERB   or   python3 deploy/dev.py VERB", "", *lines])


def main(arguments: Sequence[str]) -> int:
    """Runs one verb and answers its exit code; 2 where there is no such verb."""
    if not arguments:
        print(usage())
        return 0
    if len(arguments) != 1 or arguments[0] not in VERBS:
        print(usage(), file=sys.stderr)
        return 2
    verb, _ = VERBS[arguments[0]]
    try:
        return verb()
    except VerbFailed as failed:
        if str(failed):
            say(str(failed))
        return failed.code
    except KeyboardInterrupt:
        return CANCELLED
