"""A7: a foreign page makes the browser of a person on the stack's machine start a command."""

from __future__ import annotations

import json
import uuid
from typing import Final

from tests.attacks.attack import Actor, Attack, StackKind, Verdict, broken, held
from tests.attacks.hostile import http, http_status
from tests.attacks.stage import Stage

_PROOF: Final = "tests/rules/test_attacks_edges.py::test_without_the_look_at_origins_a_foreign_page_starts_a_command"
_TRAININGS: Final = "/api/v1/workloads/trainings"
_JSON: Final = "application/json"
_EVIL: Final = "http://evil.example"


async def _starts(stage: Stage, headers: dict[str, str]) -> Verdict:
    """Sends a create as a page would; broken where a workload of that name is there afterwards."""
    name = f"attack-a7-{uuid.uuid4().hex[:8]}"
    body = {
        "name": name,
        "projectId": stage.project,
        "clusterId": "00000000-0000-0000-0000-000000000000",
        "spec": {"image": "x", "command": "touch /tmp/attack-a7"},
    }
    status = await http_status(http(stage, "POST", _TRAININGS, headers=headers, content=json.dumps(body).encode()))
    listed = await http(stage, "GET", f"/api/v1/workloads?filterBy=name%3D%3D{name}")
    listed.raise_for_status()
    if name in listed.text:
        return broken(f"the page's request was answered with {status}, and the workload {name} is there")
    return held(f"the page's request was answered with {status}, and nothing was made")


async def _simple_request(stage: Stage) -> Verdict:
    """`fetch(.., {mode: "no-cors"})`: needs no preflight."""
    return await _starts(stage, {"content-type": "text/plain", "origin": _EVIL, "sec-fetch-site": "cross-site"})


async def _form(stage: Stage) -> Verdict:
    """A form that submits itself, from a browser that says nothing of the page."""
    return await _starts(stage, {"content-type": "application/x-www-form-urlencoded"})


async def _rebound_name(stage: Stage) -> Verdict:
    """The page's own name was bound to the loopback: to the browser everything is of one origin."""
    port = stage.rest.rpartition(":")[2]
    host = f"evil.example:{port}"
    return await _starts(stage, {"content-type": _JSON, "host": host, "origin": f"http://{host}"})


async def _other_port(stage: Stage) -> Verdict:
    """A page that a replica serves on another port of the same machine."""
    return await _starts(stage, {"content-type": _JSON, "origin": "http://127.0.0.1:9"})


async def _preflight(stage: Stage) -> Verdict:
    """Asks whether a page of another origin may send JSON."""
    asked = {"origin": _EVIL, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    answer = await http(stage, "OPTIONS", _TRAININGS, headers=asked)
    allowed = [name for name in answer.headers if name.startswith("access-control-allow-")]
    return broken(f"the preflight allows {allowed}") if allowed else held(f"{answer.status_code} that allows nothing")


ATTACKS: Final = (
    Attack("A7", "simple-request-of-a-foreign-page", Actor.BROWSER, _simple_request, _PROOF, stack=StackKind.OPEN),
    Attack("A7", "form-of-a-foreign-page", Actor.BROWSER, _form, _PROOF, stack=StackKind.OPEN),
    Attack("A7", "name-bound-to-the-loopback", Actor.BROWSER, _rebound_name, _PROOF, stack=StackKind.OPEN),
    Attack("A7", "page-on-another-port", Actor.BROWSER, _other_port, _PROOF, stack=StackKind.OPEN),
    Attack("A7", "preflight-of-a-foreign-page", Actor.BROWSER, _preflight, _PROOF, stack=StackKind.OPEN),
)
