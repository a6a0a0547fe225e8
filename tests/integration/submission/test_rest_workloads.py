"""Workloads by REST on the real service: create, get, suspend, resume, delete, and every way in which a create ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import httpx

from muster.workload.v1 import workload_pb2 as wl
from muster_submission.domain.fleet import ANY_CLUSTER
from tests.support.admitting import admitting
from tests.support.doors import Door, door, key, moved
from tests.support.sdk import judge
from tests.support.waiting import eventually

EXAMPLE = json.loads((Path(__file__).parents[2] / "data" / "rest" / "training.json").read_text())
JSON = {"content-type": "application/json"}
TRAININGS = "/api/v1/workloads/trainings"


def body(name: str = "first", **more: Any) -> dict[str, Any]:
    made = {"name": name, "projectId": "1", "clusterId": ANY_CLUSTER, "spec": {"image": "x", "command": "true"}}
    return made | more


async def created(here: Door, path: str = TRAININGS, **more: Any) -> httpx.Response:
    return await here.http.post(path, json=body(**more))


async def test_workloads_by_rest(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        project = await here.project()
        assert project.id == 1
        async with admitting(here):
            await a_life(here)
            await a_prefix_is_numbered(here)
            await all_kinds(here)
            await the_example(here)
            await plain_curl(here)
            await what_is_wrong(here)
            await what_repeats(here)
        await policy_refuses(here)
        await policy_is_silent(here)


async def a_life(here: Door) -> None:
    response = await created(here, name="life")
    made = response.json()
    assert response.status_code == 200, made
    judge("create_training", made)
    assert (made["name"], made["requestedName"], made["projectId"]) == ("life", "life", "1")
    assert (made["desiredPhase"], made["createdBy"], made["spec"]["image"]) == ("Running", "local", "x")
    one = f"{TRAININGS}/{made['workloadId']}"
    judge("get_training", shown := (await here.http.get(one)).json())
    assert shown["workloadId"] == made["workloadId"]
    assert (await here.http.get(f"/api/v1/workloads/workspaces/{made['workloadId']}")).status_code == 404
    await here.decide(made["workloadId"], moved(wl.PHASE_PENDING))
    await phase(here, one, "Pending")
    suspended = await here.http.post(f"{one}/suspend")
    assert (suspended.status_code, suspended.json()["code"]) == (202, 202)
    assert (await here.http.post(f"{one}/resume")).status_code == 202
    assert (await here.http.delete(one)).status_code == 204
    await here.decide(made["workloadId"], moved(wl.PHASE_DELETED))
    await eventually(lambda: here.http.get(one), lambda response: response.status_code == 404)
    assert (await here.http.post(f"{one}/resume")).status_code == 404


async def phase(here: Door, path: str, wanted: str) -> None:
    await eventually(lambda: here.http.get(path), lambda response: response.json().get("actualPhase") == wanted)


async def a_prefix_is_numbered(here: Door) -> None:
    made = (await created(here, name="run", useGivenNameAsPrefix=True)).json()
    assert (made["name"], made["requestedName"]) == ("run-0", "run")


async def all_kinds(here: Door) -> None:
    gang = {"image": "x", "command": "true", "numWorkers": 2, "distributedFramework": "PyTorch"}
    service = {"image": "x", "servingPort": {"container": 8000}}
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        ("workspaces", "get_workspace", {"image": "x"}),
        ("distributed", "get_distributed", gang),
        ("inferences", "get_inference", service),
    ]
    for path, operation, spec in kinds:
        response = await created(here, f"/api/v1/workloads/{path}", name=f"of-{path}", spec=spec)
        assert response.status_code == 200, response.text
        one = f"/api/v1/workloads/{path}/{response.json()['workloadId']}"
        judge(operation, shown := (await here.http.get(one)).json())
        assert shown["name"] == f"of-{path}"


async def the_example(here: Door) -> None:
    response = await here.http.post(TRAININGS, json=EXAMPLE | {"clusterId": ANY_CLUSTER})
    assert response.status_code == 200, response.text
    assert len(response.json()["warnings"]) == 6


async def plain_curl(here: Door) -> None:
    data = json.dumps(body("by-curl"))
    argv = [
        "curl",
        "-sS",
        "--fail",
        "-H",
        "content-type: application/json",
        "-d",
        data,
        f"{here.http.base_url}".rstrip("/") + TRAININGS,
    ]
    said = await asyncio.to_thread(subprocess.run, argv, capture_output=True, check=True)
    assert json.loads(said.stdout)["name"] == "by-curl"


async def what_is_wrong(here: Door) -> None:
    cases: list[tuple[dict[str, Any], int, str]] = [
        (body(projectId="77"), 400, "projectId"),
        (body(projectId="no-such-project"), 400, "projectId"),
        (body(clusterId="71f69d83-ba66-4822-adf5-55ce55efd210"), 400, "clusterId"),
        (body("x" * 64), 400, "name"),
        (body("Upper"), 400, "name"),
        (body("'; DROP TABLE workloads; --"), 400, "name"),
        (body(spec={"image": "x", "backoffLimit": -1}), 400, "spec.backoffLimit"),
        (body(spec={"imagee": "x"}), 400, "spec.imagee"),
        (body("of-workspaces"), 409, "name"),
    ]
    before = await here.app.database.pool.fetchval("SELECT count(*) FROM workloads")
    for sent, status, field in cases:
        response = await here.http.post(TRAININGS, json=sent)
        said = response.json()
        assert (response.status_code, said["code"]) == (status, status), said
        judge("submission_error", said)
        assert field in [one["field"] for one in said["violations"]], said
    assert (await here.http.get(f"{TRAININGS}/not-an-id")).status_code == 400
    assert (await here.http.get(f"{TRAININGS}/{ANY_CLUSTER}")).status_code == 404
    assert (await here.http.post(TRAININGS, content=b"[" * 100_000, headers=JSON)).status_code == 400
    assert (await here.http.post(TRAININGS, content=b" " * (10 << 20), headers=JSON)).status_code == 413
    assert await here.app.database.pool.fetchval("SELECT count(*) FROM workloads") == before


async def what_repeats(here: Door) -> None:
    first, again = (await created(here, name="twice")).json(), (await created(here, name="twice")).json()
    assert first["workloadId"] == again["workloadId"]
    other = await here.http.post(TRAININGS, json=body("twice", spec={"image": "other"}))
    assert other.status_code == 409
    await here.http.delete(f"{TRAININGS}/{first['workloadId']}")
    await here.decide(first["workloadId"], moved(wl.PHASE_DELETED))
    await eventually(lambda: here.http.get(f"{TRAININGS}/{first['workloadId']}"), lambda one: one.status_code == 404)
    anew = (await created(here, name="twice")).json()
    assert anew["workloadId"] != first["workloadId"]
    headers = {"Idempotency-Key": key()}
    kept = [await here.http.post(TRAININGS, json=body("keyed"), headers=headers) for _ in range(2)]
    assert kept[0].json()["workloadId"] == kept[1].json()["workloadId"]
    changed = await here.http.post(TRAININGS, json=body("keyed-2"), headers=headers)
    assert changed.status_code == 409
    assert changed.json()["details"].startswith(f"idempotency key {headers['Idempotency-Key']!r} came with another")


_GONE = ["workloads.delete"]


async def policy_refuses(here: Door) -> None:
    posting = asyncio.create_task(here.http.post(TRAININGS, json=body("refused")))
    rows = await eventually(
        lambda: here.app.database.pool.fetch("SELECT id::text AS id FROM workloads WHERE name = 'refused'"), bool
    )
    refused = rows[0]["id"]
    await here.reject(await here.get(refused), "value must be no more than 4")
    asked = "SELECT verb FROM audit WHERE target = $1 ORDER BY id"
    await eventually(
        lambda: here.app.database.pool.fetch(asked, refused), lambda found: [one["verb"] for one in found][-1:] == _GONE
    )
    await here.decide(refused, moved(wl.PHASE_FAILED), moved(wl.PHASE_DELETED))
    response = await posting
    listed = (await here.http.get("/api/v1/workloads?filterBy=name==refused")).json()["workloads"]
    assert listed == [], "a create that fails leaves nothing in lists"
    assert response.status_code == 400
    judge("submission_error", said := response.json())
    assert said["message"] == "The workload request does not comply with the policy set by the administrator"
    assert said["complianceIssues"] == [
        {"field": "compute.gpuDevicesRequest", "details": "value must be no more than 4"}
    ]
    async with admitting(here):
        assert (await created(here, name="refused")).status_code == 200


async def policy_is_silent(here: Door) -> None:
    response = await here.http.post(TRAININGS, json=body("patient"))
    assert (response.status_code, response.json()["actualPhase"]) == (200, "Creating")
