"""REST's lists of workloads on the real service: every answer valid for the vendor's models, every refusal in words."""

from __future__ import annotations

import json
from typing import Any

from runai import models as runai_models

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from tests.support.doors import Door, door, moved, placed
from tests.support.waiting import eventually

models: Any = runai_models  # the package exports its models without saying so to type checkers
PATH = "/api/v1/workloads"
GHOST = "01900000-0000-7000-8000-000000000000"


async def ok(here: Door, path: str, **query: Any) -> dict[str, Any]:
    answer = await here.http.get(f"{PATH}{path}", params=query)
    assert answer.status_code in {200, 207}, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def names(here: Door, **query: Any) -> list[str]:
    return [one["name"] for one in (await ok(here, "", **query))["workloads"]]


async def refusal(here: Door, path: str, **query: Any) -> tuple[int, str]:
    answer = await here.http.get(f"{PATH}{path}", params=query)
    body = answer.json()
    return answer.status_code, body.get("details", "")


async def running(here: Door, workload: wl.Workload) -> None:
    await here.admit(workload)
    replica = wl.Replica(name=f"w-{workload.name}-worker-0", role="worker", node="n-1", state="READY")
    await here.decide(workload.id, placed(), moved(wl.PHASE_RUNNING, replicas=[replica]))
    await eventually(lambda: here.get(workload.id), lambda one: one.phase == wl.PHASE_RUNNING and bool(one.replicas))


async def _lists(here: Door) -> None:
    made = {name: await here.submit(name=name, image="i") for name in ("train-a", "train-b", "eval")}
    await running(here, made["train-b"])

    page = await ok(here, "")
    models.GetWorkloads200Response.model_validate(page)
    assert [one["name"] for one in page["workloads"]] == ["eval", "train-b", "train-a"]
    assert "next" not in page
    row = page["workloads"][1]
    assert (row["phase"], row["runningPods"], row["projectName"], row["type"]) == (
        "Running",
        1,
        "team-a",
        "Training",
    )
    assert row["deletedAt"] is None
    assert row["clusterId"] == page["workloads"][1]["clusterId"] != page["workloads"][0]["clusterId"]

    assert await names(here, sortBy="name", sortOrder="asc") == ["eval", "train-a", "train-b"]
    assert await names(here, sortBy="name", sortOrder="desc", limit=1, offset=1) == ["train-a"]
    # One project in one department: the id alone is left to order by. One workload has a place, and so a cluster.
    for field in ("projectId", "departmentId", "departmentName", "WorkloadSortFields.DEPARTMENTNAME"):
        assert await names(here, sortBy=field) == ["train-a", "train-b", "eval"]
    assert await names(here, sortBy="clusterId", sortOrder="desc") == ["train-b", "eval", "train-a"]
    assert await names(here, sortBy="CLUSTERID") == ["train-a", "eval", "train-b"]
    assert (await ok(here, "", limit=2))["next"] == 2
    assert await names(here, filterBy="name=^train") == ["train-b", "train-a"]
    assert await names(here, filterBy="name=^train,phase==Running") == ["train-b"]
    assert await names(here, filterBy=["name=^train", "phase!=Running"]) == ["train-a"]
    assert await names(here, filterBy=json.dumps(["name!=eval", "name=@-a"])) == ["train-a"]
    assert await names(here, filterBy="name=@%") == []
    assert await names(here, filterBy="name=@_") == []
    assert await names(here, filterBy="name=$\\") == []
    assert await names(here, filterBy="name=='; DROP TABLE workload_list; --") == []
    assert await names(here, filterBy="name=={{7*7}}") == []
    assert await names(here, filterBy=f"projectId=={row['projectId']},clusterId=={row['clusterId']}") == ["train-b"]
    assert len(await names(here, filterBy="departmentName==default,createdAt>=2024-01-01T00:00:00Z")) == 3
    assert await names(here, filterBy="departmentName==other") == []
    assert await names(here, deleted="true") == []
    assert await ok(here, "/count") == {"count": 3}
    assert await ok(here, "/count", filterBy="type==Training,name!@train") == {"count": 1}

    one = await ok(here, f"/{made['train-b'].id}")
    models.Workload.model_validate(one)
    assert one == row


async def _refusals(here: Door) -> None:
    for limit in ("0", "501", "-1", "x", "1e2", "99999999999999999999"):
        status, said = await refusal(here, "", limit=limit)
        assert status == 400
        assert "from 1 to 500" in said
    status, said = await refusal(here, "", filterBy="colour==red")
    assert status == 400
    assert "projectName" in said
    assert "submittedBy" in said
    for query in (
        {"filterBy": "name~=x"},
        {"filterBy": "phase==Dancing"},
        {"filterBy": "createdAt=@2024"},
        {"filterBy": "createdAt==soon"},
        {"filterBy": "allocatedGPU==many"},
        {"filterBy": "[1]"},
        {"filterBy": "name==\x00"},
        {"sortBy": "colour"},
        {"sortBy": "name; DROP TABLE workloads"},
        {"sortOrder": "sideways"},
        {"offset": "-1"},
        {"deleted": "maybe"},
    ):
        assert (await refusal(here, "", **query))[0] == 400, query
    assert (await refusal(here, "/count", filterBy="colour==red"))[0] == 400
    assert (await refusal(here, f"/{GHOST}"))[0] == 404
    assert (await refusal(here, "/no-uuid"))[0] == 404
    assert (await refusal(here, f"/{GHOST}/events"))[0] == 404
    # A word in the way that the vendor's client sends its enums.
    assert await names(here, sortOrder="SortOrder.ASC", sortBy="Fields.NAME") == []


async def _pods(here: Door) -> None:
    quiet, busy = await here.submit(name="quiet"), await here.submit(name="busy", image="i")
    await running(here, busy)
    await eventually(lambda: ok(here, "/pods/count"), lambda found: found["count"] == 1)

    pods = await ok(here, "/pods", verbosity="full", filterBy="workloadName==busy")
    models.ListPods200Response.model_validate(pods)
    (pod,) = pods["pods"]
    assert (pod["workloadId"], pod["workloadName"], pod["k8sPhase"], pod["nodeName"]) == (
        busy.id,
        "busy",
        "Running",
        "n-1",
    )
    assert (await ok(here, "/pods", completed="true"))["pods"] == []
    own = await ok(here, f"/{busy.id}/pods")
    models.ListPods200Response.model_validate(own)
    assert own["pods"] == [pod]
    assert (await ok(here, f"/{quiet.id}/pods"))["pods"] == []
    assert (await refusal(here, "/pods", filterBy="nodeName==n-1"))[0] == 400

    events = await ok(here, f"/{busy.id}/events")
    models.GetWorkloadEvents200Response.model_validate(events)
    assert events["events"][-1]["reason"] == "WorkloadSubmitted"
    history = await ok(here, f"/{busy.id}/history", limit=2)
    models.GetWorkloadHistory200Response.model_validate(history)
    seen = [*history["records"]]
    while "next" in history:
        history = await ok(here, f"/{busy.id}/history", limit=2, offset=history["next"])
        seen.extend(history["records"])
    assert len(seen) == len(events["events"])
    told = [one["spec"]["phaseUpdate"]["phase"] for one in seen if one["meta"]["type"] == "PhaseUpdate"]
    assert (told[0], told[-1]) == ("Running", "Creating")
    assert (await ok(here, f"/{busy.id}/history", offset=100))["records"] == []

    window: dict[str, Any] = {
        "start": "2026-01-01T00:00:00Z",
        "end": "2036-01-01T00:00:00+00:00",
        "numberOfSamples": 3,
    }
    answer = await here.http.get(f"{PATH}/{busy.id}/metrics", params={"metricType": "POD_COUNT", **window})
    models.MetricsResponse.model_validate(answer.json())
    assert answer.status_code == 200
    assert [one["value"] for one in answer.json()["measurements"][0]["values"]] == ["0", "1", "1"]
    answer = await here.http.get(
        f"{PATH}/{busy.id}/pods/{pod['id']}/metrics", params={"metricType": "GPU_UTILIZATION", **window}
    )
    assert (answer.status_code, answer.json()["measurements"][0]["values"]) == (207, [])
    assert (await refusal(here, f"/{busy.id}/metrics", **window))[0] == 400
    served = await here.submit(name="serve", kind=options_pb2.KIND_INFERENCE, image="i")
    asked = {"metricType": "THROUGHPUT", **window}
    answer = await here.http.get(f"{PATH}/inferences/{served.id}/metrics", params=asked)
    models.MetricsResponse.model_validate(answer.json())
    assert (answer.status_code, answer.json()["measurements"][0]["values"]) == (207, [])
    assert (await refusal(here, f"/inferences/{busy.id}/metrics", **asked))[0] == 404
    assert (await refusal(here, f"/inferences/{served.id}/pods/{GHOST}/metrics", **asked))[0] == 404
    numbers = await ok(here, "/telemetry", telemetryType="WORKLOADS_COUNT", groupBy="projectId,type")
    models.TelemetryResponse.model_validate(numbers)
    assert [one["value"] for one in numbers["values"]] == ["2", "1"]
    assert (await refusal(here, "/telemetry", telemetryType="COLOUR"))[0] == 400


async def _deleted(here: Door) -> None:
    made = await here.submit(name="gone")
    await running(here, made)
    await here.decide(made.id, moved(wl.PHASE_DELETING))
    await eventually(lambda: here.get(made.id), lambda one: one.phase == wl.PHASE_DELETING)
    await here.decide(made.id, moved(wl.PHASE_DELETED))
    await eventually(lambda: here.get(made.id), lambda one: one.phase == wl.PHASE_DELETED)
    assert "gone" not in await names(here)
    page = await ok(here, "", deleted="true", sortBy="deletedAt")
    models.GetWorkloads200Response.model_validate(page)
    assert [(one["name"], one["phase"]) for one in page["workloads"]] == [("gone", "Deleting")]
    assert page["workloads"][0]["deletedAt"] is not None
    assert await ok(here, "/count", deleted="true") == {"count": 1}


async def _batches(here: Door) -> None:
    made = await here.submit(name="w")
    answer = await here.http.post(f"{PATH}/batch", json={"action": "suspend", "ids": [made.id, GHOST]})
    assert [one["code"] for one in answer.json()["results"]] == [202, 404]
    for body in ({}, {"action": "dance", "ids": [GHOST]}, {"action": "delete", "ids": [GHOST] * 101}):
        assert (await here.http.post(f"{PATH}/batch", json=body)).status_code == 400


async def test_lists_and_what_is_refused(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await _refusals(here)
        await _lists(here)


async def test_what_happened_to_workloads(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await _pods(here)
        await _batches(here)
        await _deleted(here)
