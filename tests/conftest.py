"""What holds for every test: the stack's fixtures, how hypothesis runs, and what is said where torch is missing."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.seeds import NAME, seed

pytest_plugins = ["muster_stack.fixtures"]  # the real Kafka and PostgreSQL

# No deadline for one example: two cores are shared with a Kafka and a PostgreSQL, a clock says nothing about the code.
settings.register_profile("muster", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", parent=settings.get_profile("muster"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "muster"))

TORCH_MISSING = "torch is not installed: `make test` leaves it out where less than 12 GB of disk are free"


def pytest_configure(config: pytest.Config) -> None:
    """Says with which seed this run draws its properties, and lets no shell say how wide answers are."""
    os.environ.pop("COLUMNS", None)  # what it exports would fold tables that tests know as they are printed by default
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = seed()
    # pytest-asyncio asks for the current loop before it sets its own; Python 3.11 would make one, which nobody closes,
    # and a later test would fail for its ResourceWarning. Once told that there is none, it makes none.
    asyncio.set_event_loop(None)


def pytest_report_header(config: pytest.Config) -> str:
    """Says how to draw the same examples again."""
    return f"properties are drawn with {NAME}={config.option.hypothesis_seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Collects before a failure is shown.

    A library's future that complains of itself while pytest parses the failing test's source breaks that parse in
    Python 3.11 ("AST constructor recursion depth mismatch"), and with it the whole run.
    """
    if call.excinfo is not None:
        gc.collect()


def pytest_sessionfinish() -> None:
    """Collects what is left now: a library's futures that nobody asked complain before the summary, not below it."""
    gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is marked `torch` where torch is not installed, with the reason."""
    if importlib.util.find_spec("torch") is not None:
        return
    for item in items:
        if item.get_closest_marker("torch") is not None:
            item.add_marker(pytest.mark.skip(reason=TORCH_MISSING))
