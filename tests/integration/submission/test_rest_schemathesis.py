"""The served OpenAPI document against the service that serves it.

Whatever is sent, fitting or not, no answer is a 500, and each is one that the document has, in the form that it says.
Bounded: a fixed number of generated requests an operation, the same ones in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from muster_submission.domain.fleet import ANY_CLUSTER
from tests.support.admitting import admitting
from tests.support.doors import door

EXAMPLES: Final = {GenerationMode.POSITIVE: 4, GenerationMode.NEGATIVE: 3}
CHECKS: Final = [status_code_conformance, content_type_conformance, response_schema_conformance]
INTERNAL: Final = 500
GENTLE: Final = hypothesis.settings(
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


# The generator itself draws from `random` for some bodies that are meant to be wrong.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
async def test_the_service_is_what_its_document_says(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        document = (await here.http.get("/openapi.json")).json()
        async with admitting(here):
            wrong = await asyncio.to_thread(lambda: list(disagreements(document, str(here.http.base_url))))
        print(*wrong, sep="\n\n")
        assert not wrong
        assert await asyncio.to_thread(lambda: list(disagreements(understated(document), str(here.http.base_url))))


def understated(document: dict[str, Any]) -> dict[str, Any]:
    """The document of one operation that does not admit to its errors: the checks have to notice."""
    path = "/api/v1/workloads/trainings/{workloadId}"
    operation = document["paths"][path]["get"]
    few = operation | {"responses": {"200": operation["responses"]["200"]}}
    return document | {"paths": {path: {"get": few}}}


def disagreements(document: dict[str, Any], address: str) -> Iterator[str]:
    """What is not as the document says, in all operations and both ways of making requests."""
    schema: Any = schemathesis.openapi.from_dict(document)
    with requests.Session() as session:
        for result in schema.get_all_operations():
            operation = result.ok()
            for mode in EXAMPLES:
                yield from tried(operation, mode, address, session)


def tried(operation: Any, mode: GenerationMode, address: str, session: requests.Session) -> Iterator[str]:
    """The first disagreement of one operation."""

    @hypothesis.settings(GENTLE, max_examples=EXAMPLES[mode])
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        aim(case)
        response = case.call_and_validate(base_url=address, session=session, checks=CHECKS, timeout=20)
        # 503 is what a part behind the service makes of it: there is no scheduler here.
        assert response.status_code != INTERNAL, case.as_curl_command()

    try:
        run()
    except hypothesis.errors.Unsatisfiable:
        return  # nothing about it can be wrong
    except BaseExceptionGroup as errors:
        yield f"{operation.label} ({mode.value}): {'; '.join(str(one) for one in errors.exceptions)}"
    except (AssertionError, requests.RequestException) as error:
        yield f"{operation.label} ({mode.value}): {error}"


def aim(case: Any) -> None:
    """Half of what is generated would only ever be told that its project is not there."""
    body = case.body
    if isinstance(body, dict) and "projectId" in body and isinstance(body["projectId"], str):
        body["projectId"], body["clusterId"] = "1", ANY_CLUSTER
