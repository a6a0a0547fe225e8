"""The outcomes of the cases of a test module: its BACKEND says of which back end."""

from __future__ import annotations

import pytest

from tests.conformance.playing import Outcome
from tests.conformance.suite import outcomes_of
from tests.support.kubernetes import MISSING, built


@pytest.fixture(scope="module")
def outcomes(kafka_bootstrap: str, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """Each outcome by the name of its case."""
    if request.module.BACKEND == "apiserver" and not built():
        pytest.fail(MISSING)
    return outcomes_of(request.module.BACKEND, kafka_bootstrap, request)
