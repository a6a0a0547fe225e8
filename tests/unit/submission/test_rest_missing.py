"""Every route that the vendor's client can ask for is served, or answers 501 with its reason."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
import runai.api

from muster_chassis.rpc import everyone_is_local
from muster_submission.rest.edge import Edge
from muster_submission.rest.openapi import document
from muster_submission.rest.router import Router
from muster_submission.rest.routes import missing
from tests.support.served import served

_CALL = re.compile(r'resource_path = f"([^"]+)"\.replace\(\s*"_", "-"\s*\)\s*\n\s*method = "(\w+)"')


def asked_by_the_client() -> list[tuple[str, str]]:
    """(method, path) of each method of the client, with an id in place of each parameter."""
    folder = Path(runai.api.__file__).parent
    found = [pair for file in sorted(folder.glob("*_api.py")) for pair in _CALL.findall(file.read_text())]
    return sorted({(method, re.sub(r"{[^}]*}", "1", path).replace("_", "-")) for path, method in found})


def test_the_client_has_the_routes_that_are_looked_for() -> None:
    assert len(asked_by_the_client()) > 200


@pytest.fixture(scope="module")
def router() -> Router:
    return Router(served())


@pytest.mark.parametrize(("method", "path"), asked_by_the_client())
def test_no_route_of_the_client_is_unknown(router: Router, method: str, path: str) -> None:
    assert router.find(method, path)[0].name


async def test_what_is_not_offered_says_why() -> None:
    edge = Edge(missing.operations([]), everyone_is_local)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://127.0.0.1") as http:
        response = await http.get("/api/v1/users")
        older = await http.delete("/v1/k8s/clusters/1/projects/2")
    assert (response.status_code, response.json()["code"]) == (501, 501)
    assert "issuer of their tokens" in response.json()["details"]
    assert "/api/v1/org-unit/projects" in older.json()["details"]


def test_what_is_served_is_not_refused() -> None:
    refused = missing.operations([])
    assert len(missing.operations(refused[:10])) == len(refused) - 10


def test_the_whole_document_can_be_written() -> None:
    written = document(served(), "1")
    assert written["paths"]["/api/v1/workloads/trainings"]["post"]["operationId"] == "create_training"
    assert not [path for path in written["paths"] if path.startswith("/api/v1/asset")]
