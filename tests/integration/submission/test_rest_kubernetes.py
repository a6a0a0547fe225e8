"""Kubernetes' way in on the real service: objects as JSON and YAML, created, shown and deleted, and how it refuses."""

from __future__ import annotations

from typing import Any

import httpx

from muster.workload.v1 import workload_pb2 as wl
from tests.support.doors import Door, door, moved
from tests.support.waiting import eventually

RUN_AI = "/apis/run.ai/v2alpha1/namespaces/runai-team-a"
TRAININGS = f"{RUN_AI}/trainingworkloads"
JSON = {"content-type": "application/json"}
YAML = {"content-type": "application/yaml"}


def training(name: str, **spec: Any) -> dict[str, Any]:
    fields = {"image": {"value": "x"}, "command": {"value": "true"}} | spec
    return {
        "apiVersion": "run.ai/v2alpha1",
        "kind": "TrainingWorkload",
        "metadata": {"name": name},
        "spec": fields,
    }


async def test_objects(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await a_life(here)
        await yaml_is_read_as_well(here)
        await a_prefix_keeps_the_objects_name(here)
        await a_colossal_job(here)
        await what_is_refused(here)


async def a_life(here: Door) -> None:
    response = await here.http.post(TRAININGS, json=training("first"))
    assert response.status_code == 201, response.text
    made = response.json()
    assert (made["kind"], made["metadata"]["name"]) == ("TrainingWorkload", "first")
    assert (made["metadata"]["namespace"], made["status"]["phase"]) == ("runai-team-a", "Creating")
    shown = (await here.http.get(f"{TRAININGS}/first")).json()
    assert (shown["metadata"]["uid"], shown["spec"]["image"]) == (made["metadata"]["uid"], {"value": "x"})
    assert (await here.get(made["metadata"]["uid"])).origin == wl.ORIGIN_YAML
    again = await here.http.post(TRAININGS, json=training("first"))
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    gone = await here.http.delete(f"{TRAININGS}/first")
    assert (gone.status_code, gone.json()["details"]["uid"]) == (200, made["metadata"]["uid"])
    await here.decide(made["metadata"]["uid"], moved(wl.PHASE_DELETED))
    await eventually(lambda: here.http.get(f"{TRAININGS}/first"), lambda response: response.status_code == 404)
    assert (await here.http.post(TRAININGS, json=training("first"))).status_code == 201


async def yaml_is_read_as_well(here: Door) -> None:
    text = "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata: {name: second}\nspec: {image: {value: x}}\n"
    response = await here.http.post(TRAININGS, content=text, headers=YAML)
    assert (response.status_code, response.json()["metadata"]["name"]) == (201, "second")


async def a_prefix_keeps_the_objects_name(here: Door) -> None:
    made = (await here.http.post(TRAININGS, json=training("many", namePrefix={"value": "run"}))).json()
    assert (made["metadata"]["name"], made["status"]["workloadName"]) == ("many", "run-0")
    shown = (await here.http.get(f"{TRAININGS}/many")).json()
    assert shown["metadata"]["uid"] == made["metadata"]["uid"]


async def a_colossal_job(here: Door) -> None:
    jobs = "/apis/batch.tensorstack.dev/v1beta1/namespaces/runai-team-a/colossalaijobs"
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "ColossalAIJob",
        "metadata": {"name": "gang"},
        "spec": {
            "torchConfig": {"procPerWorker": 1, "script": ["train.py"]},
            "replicaSpecs": [
                {"type": "launcher", "replicas": 1, "template": pod},
                {"type": "worker", "replicas": 2, "template": pod},
            ],
        },
    }
    response = await here.http.post(jobs, json=job)
    assert response.status_code == 201, response.text
    assert (await here.http.get(f"{jobs}/gang")).json()["kind"] == "ColossalAIJob"
    assert (await here.http.get(f"{RUN_AI}/distributedworkloads/gang")).status_code == 404


async def what_is_refused(here: Door) -> None:
    wrong = training("third", backoffLimit={"value": -1}, imagee={"value": "x"})
    refused = await here.http.post(TRAININGS, json=wrong)
    status(refused, 422, "Invalid")
    fields = [cause["field"] for cause in refused.json()["details"]["causes"]]
    assert fields == ["spec.backoffLimit.value", "spec.imagee"]
    status(await here.http.post(f"{RUN_AI}/inferenceworkloads", json=training("third")), 422, "Invalid")
    status(await here.http.post(TRAININGS, json=training("third") | {"kind": "Pod"}), 422, "Invalid")
    elsewhere = training("third") | {"metadata": {"name": "third", "namespace": "runai-other"}}
    status(await here.http.post(TRAININGS, json=elsewhere), 422, "Invalid")
    status(await here.http.post(TRAININGS.replace("team-a", "nobody"), json=training("third")), 404, "NotFound")
    status(await here.http.get(f"{TRAININGS}/third"), 404, "NotFound")
    status(await here.http.post(f"{TRAININGS}?dryRun=All", json=training("third")), 400, "BadRequest")
    status(await here.http.post(TRAININGS, content=b'{"kind": 1, "kind": 2}', headers=JSON), 400, "BadRequest")
    status(await here.http.post(TRAININGS, content=b"a: " + b"[" * 100_000, headers=YAML), 422, "Invalid")
    status(await here.http.post(TRAININGS, content=b" " * (2 << 20), headers=JSON), 413, "RequestEntityTooLarge")
    await bad_text(here)
    status(await here.http.get("/apis/run.ai/v2alpha1"), 404, "NotFound")
    status(await here.http.patch(f"{TRAININGS}/second", json={}), 405, "MethodNotAllowed")


async def bad_text(here: Door) -> None:
    before = await here.app.database.pool.fetchval("SELECT count(*) FROM workloads")
    good = "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata: {name: third}\nspec: {image: {value: x}}\n"
    for text in (
        good.replace("{value: x}", "&a {value: x}") + "masterSpec: *a\n",
        good.replace("{value: x}", '{value: "\\0"}'),
        good.replace("v2alpha1", "v9"),
        good.replace("TrainingWorkload", "Job"),
        good + "spec: {image: {value: y}}\n",
        good + "---\n" + good,
    ):
        status(await here.http.post(TRAININGS, content=text, headers=YAML), 422, "Invalid")
    status(await here.http.post(TRAININGS, content=good.encode() + b"# \xff", headers=YAML), 400, "BadRequest")
    assert await here.app.database.pool.fetchval("SELECT count(*) FROM workloads") == before


def status(response: httpx.Response, code: int, reason: str) -> None:
    said = response.json()
    assert (response.status_code, said["kind"], said["reason"]) == (code, "Status", reason), said
