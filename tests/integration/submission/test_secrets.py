"""A credential in a spec is found nowhere in clear: no topic, table, log or answer, on whichever way it came."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from muster.api.v1 import agent_gateway_pb2, templates_pb2, tenancy_pb2, triggers_pb2
from muster.api.v1 import workloads_pb2 as api
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.topics import FIXED
from muster_kernel.sealed import SEALED
from muster_language.sensitive import MASK
from muster_submission.handlers.sealing import Rotation
from tests.support.doors import PROJECT, Door, door, key, moved, placed, violations
from tests.support.waiting import eventually

CANARY = "hunter2-Canary-7f3a"
INHERITED = f"{CANARY}-inherited"
WORKSPACE = f"""
apiVersion: run.ai/v2alpha1
kind: InteractiveWorkload
metadata: {{name: notebook}}
spec:
  command: {{value: sleep}}
  notebookToken: {{value: {CANARY}-yaml}}
"""


def key_line(name: str) -> str:
    return f"{name} {base64.b64encode(os.urandom(32)).decode()}\n"


@asynccontextmanager
async def sealed_door(database: Any, kafka: str, keys: Path) -> AsyncIterator[Door]:
    keys.touch(0o600)  # noqa: ASYNC240 - a file
    keys.write_text(key_line("k1"))  # noqa: ASYNC240 - a line
    async with door(database, kafka, secret_keys_file=keys) as here:
        await here.project()
        yield here


def git(password: str, **more: Any) -> wl.WorkloadSpec:
    spec = wl.WorkloadSpec(kind=options_pb2.KIND_TRAINING, command="true", **more)
    spec.git_sync.add(label="code", repository="https://git.example/a.git", path="/code", password=password)
    return spec


async def rows(here: Door) -> bytes:
    """Every row of every table, read as it stands and as text."""
    found = list[bytes]()
    tables = await here.app.database.pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    for table in tables:
        for row in await here.app.database.pool.fetch(f'SELECT * FROM "{table["tablename"]}"'):  # noqa: S608
            found.append(repr(list(row.values())).encode())
            found += [value for value in row.values() if isinstance(value, bytes)]
    return b"\n".join(found)


async def records(here: Door) -> bytes:
    """Every record of every topic, once everything that was staged has been sent."""
    staged = {str(row["event_id"]) for row in await here.app.database.pool.fetch("SELECT event_id FROM outbox")}
    consumer = AIOKafkaConsumer(bootstrap_servers=here.kafka, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        places = [TopicPartition(topic.name, at) for topic in FIXED for at in range(topic.partitions)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        found = list[bytes]()
        async with asyncio.timeout(30):
            while staged:
                for polled in (await consumer.getmany(timeout_ms=500)).values():
                    staged -= {dict(one.headers).get("ce_id", b"").decode() for one in polled}
                    told = [(one.value or b"", one.key or b"", repr(one.headers).encode()) for one in polled]
                    found += [part for parts in told for part in parts]
        return b"\n".join(found)
    finally:
        await consumer.stop()


async def said_on_every_way(here: Door) -> Sequence[Any]:
    """The answers to the canary on every way in that gRPC has."""
    answers = list[Any]()
    for one in (
        api.WorkloadDraft(project=PROJECT, yaml=WORKSPACE),
        api.WorkloadDraft(project=PROJECT, spec=git(f"{CANARY}-grpc", name="grpc")),
    ):
        asked = api.SubmitWorkloadRequest(draft=one, idempotency_key=key())
        answers += [await here.workloads.SubmitWorkload(asked), await here.workloads.SubmitWorkload(asked)]
    many = [api.WorkloadDraft(project=PROJECT, spec=git(f"{CANARY}-{n}", name=f"bulk{n}")) for n in range(3)]
    bulk = api.SubmitWorkloadsRequest(drafts=many, idempotency_key=key())
    answers.append(await here.workloads.SubmitWorkloads(bulk))
    template = api.WorkloadDraft(project=PROJECT, spec=git(f"{CANARY}-base", name="base", usage=wl.USAGE_TEMPLATE))
    for _ in range(2):
        apply = templates_pb2.ApplyTemplateRequest(draft=template, idempotency_key=key())
        answers.append(await here.templates.ApplyTemplate(apply))
    heir = await here.submit(name="heir", base_workload="base")
    answers += [heir, await here.get(heir.id)]
    answers.append(await here.workloads.ListWorkloads(api.ListWorkloadsRequest()))
    answers.append(await here.templates.ListTemplates(templates_pb2.ListTemplatesRequest()))
    # What is refused repeats nothing either.
    for spoilt in (git(CANARY * 500, name="long"), git(CANARY, name="Bad Name"), git(CANARY, name="grpc")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await submitted(here, spoilt)
        answers.append(f"{refused.value!r} {violations(refused.value)}")
    return answers


async def submitted(here: Door, spec: wl.WorkloadSpec) -> wl.Workload:
    drafted = api.WorkloadDraft(project=PROJECT, spec=spec)
    asked = api.SubmitWorkloadRequest(draft=drafted, idempotency_key=key())
    return (await here.workloads.SubmitWorkload(asked)).workload


async def applied(here: Door, password: str, **more: Any) -> api.ApplyWorkloadResponse:
    service = git(password, name="served", **more)
    service.kind = options_pb2.KIND_INFERENCE
    drafted = api.WorkloadDraft(project=PROJECT, spec=service)
    return await here.workloads.ApplyWorkload(api.ApplyWorkloadRequest(draft=drafted, idempotency_key=key()))


async def fetched(here: Door, workload: str, cluster: str = "east") -> list[str]:
    asked = agent_gateway_pb2.FetchSecretsRequest(cluster=cluster, workload_id=workload)
    answer = await here.gateway.FetchSecrets(asked, metadata=await here.agent_metadata())
    return [one.value for one in answer.secrets]


async def on_kubernetes_way(here: Door) -> Sequence[Any]:
    """The answers to the canary over HTTP."""
    spec = {"command": {"value": "x"}, "notebookToken": {"value": f"{CANARY}-http"}}
    thing = {"apiVersion": "run.ai/v2alpha1", "kind": "InteractiveWorkload", "metadata": {"name": "http"}, "spec": spec}
    where = "/apis/run.ai/v2alpha1/namespaces/runai-team-a/interactiveworkloads"
    made = await here.http.post(where, json=thing)
    assert made.status_code == 201, made.text
    again = await here.http.post(where, json=thing)
    bare = await here.http.post(where, json=thing | {"spec": spec | {"notebookToken": CANARY}})
    assert (again.status_code, bare.status_code) == (409, 422)
    shown = await here.http.get(f"{where}/http")
    listed = await here.http.get("/api/v1/workloads")
    return [made.text, again.text, bare.text, shown.text, listed.text, listed.status_code]


async def what_is_applied_again_is_kept(here: Door) -> Sequence[Any]:
    """The answers to a service that is applied with the same credential, with a mask, and with another one."""
    first, second, third = [await applied(here, given) for given in (f"{CANARY}-one", f"{CANARY}-one", MASK)]
    changed = await applied(here, MASK, image="nginx")
    assert [one.outcome for one in (first, second, third, changed)] == [
        api.APPLY_OUTCOME_CREATED,
        api.APPLY_OUTCOME_UNCHANGED,
        api.APPLY_OUTCOME_UNCHANGED,
        api.APPLY_OUTCOME_CHANGED,
    ]
    with pytest.raises(grpc.aio.AioRpcError) as fixed:
        await applied(here, f"{CANARY}-other")
    assert fixed.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    await here.decide(first.workload.id, placed("east"))
    assert await eventually(lambda: held(here, first.workload.id)) == [f"{CANARY}-one"]
    return [first, second, third, changed, fixed.value]


async def what_nobody_may_write_is_refused(here: Door) -> None:
    for given in (MASK, f"{SEALED}0192d3c4-0000-7000-8000-000000000000:1"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await submitted(here, git(given, name="new"))
        assert violations(refused.value).keys() == {"spec.git_sync.code.password"}
    referred = await submitted(here, git("SECRET:vault,key", name="refers"))
    assert referred.spec.git_sync[0].password == "SECRET:vault,key"
    chosen = triggers_pb2.TriggerField(path="notebookToken", value="data.t", allowed=["tok"])
    rule = triggers_pb2.Trigger(
        name="r", project=PROJECT, template="nb", event_type="t", event_sources=["*"], fields=[chosen], enabled=True
    )
    notebook = wl.WorkloadSpec(kind=options_pb2.KIND_WORKSPACE, command="true", name="nb", usage=wl.USAGE_TEMPLATE)
    template = api.WorkloadDraft(project=PROJECT, spec=notebook)
    await here.templates.ApplyTemplate(templates_pb2.ApplyTemplateRequest(draft=template, idempotency_key=key()))
    with pytest.raises(grpc.aio.AioRpcError) as open_rule:
        await here.triggers.ApplyTrigger(triggers_pb2.ApplyTriggerRequest(trigger=rule, idempotency_key=key()))
    assert violations(open_rule.value).keys() == {"trigger.fields.notebookToken"}


async def held(here: Door, workload: str) -> list[str]:
    """What the agent gets; nothing while the read model has not heard of the place."""
    try:
        return await fetched(here, workload)
    except grpc.aio.AioRpcError:
        return []


async def the_agent_of_its_cluster_gets_it_and_it_goes_with_the_workload(here: Door) -> None:
    template = api.WorkloadDraft(project=PROJECT, spec=git(INHERITED, name="shared", usage=wl.USAGE_TEMPLATE))
    apply = templates_pb2.ApplyTemplateRequest(draft=template, idempotency_key=key())
    await here.templates.ApplyTemplate(apply)
    heir = await here.submit(name="agents-heir", base_workload="shared")
    one = await submitted(here, git(f"{CANARY}-own", name="one"))
    for workload in (heir, one):
        with pytest.raises(grpc.aio.AioRpcError) as early:
            await fetched(here, workload.id)
        assert early.value.code() is grpc.StatusCode.NOT_FOUND
        await here.decide(workload.id, placed("east"))
    assert await eventually(lambda: held(here, heir.id)) == [INHERITED]
    assert await eventually(lambda: held(here, one.id)) == [f"{CANARY}-own"]
    for workload_id, cluster in ((one.id, "west"), ("nonsense", "east"), (one.id, "")):
        with pytest.raises(grpc.aio.AioRpcError) as elsewhere:
            await fetched(here, workload_id, cluster)
        assert elsewhere.value.code() is grpc.StatusCode.NOT_FOUND
    template.spec.git_sync[0].password = MASK
    apply = templates_pb2.ApplyTemplateRequest(draft=template, idempotency_key=key())
    await here.templates.ApplyTemplate(apply)  # kept
    second = await here.submit(name="second", base_workload="shared")
    await here.decide(second.id, placed("east"))
    assert await eventually(lambda: held(here, second.id)) == [INHERITED]
    await here.decide(one.id, moved(wl.PHASE_DELETED))
    await eventually(lambda: here.get(one.id), lambda seen: seen.phase == wl.PHASE_DELETED)
    await here.app.secrets.forget(100)
    counted = "SELECT count(*) FROM secrets WHERE holder = $1"
    assert await here.app.database.pool.fetchval(counted, one.id) == 0
    assert await here.app.database.pool.fetchval(counted, heir.id) == 1
    stranger = str(uuid.uuid4())
    looked = agent_gateway_pb2.FindDeletedRequest(cluster="east", workload_ids=[one.id, heir.id, stranger, "nonsense"])
    found = await here.gateway.FindDeleted(looked)
    assert (list(found.deleted), list(found.unknown)) == ([one.id], [stranger])


async def a_project_takes_what_its_templates_hold_along(here: Door) -> None:
    counted = "SELECT count(*) FROM secrets"
    before = await here.app.database.pool.fetchval(counted)
    await here.project("brief")
    template = api.WorkloadDraft(project="brief", spec=git(f"{CANARY}-brief", name="base", usage=wl.USAGE_TEMPLATE))
    await here.templates.ApplyTemplate(templates_pb2.ApplyTemplateRequest(draft=template, idempotency_key=key()))
    assert await here.app.database.pool.fetchval(counted) == before + 1
    gone = templates_pb2.DeleteTemplateRequest(project="brief", name="base", idempotency_key=key())
    await here.templates.DeleteTemplate(gone)
    assert await here.app.database.pool.fetchval(counted) == before
    await here.templates.ApplyTemplate(templates_pb2.ApplyTemplateRequest(draft=template, idempotency_key=key()))
    await here.tenancy.DeleteProject(tenancy_pb2.DeleteProjectRequest(name="brief", idempotency_key=key()))
    assert await here.app.database.pool.fetchval(counted) == before


async def test_the_canary_never_leaks(
    database: Any, kafka: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with sealed_door(database, kafka, tmp_path / "keys") as here:
        answers = [*await said_on_every_way(here), *await on_kubernetes_way(here)]
        answers += await what_is_applied_again_is_kept(here)
        await what_nobody_may_write_is_refused(here)
        await the_agent_of_its_cluster_gets_it_and_it_goes_with_the_workload(here)
        await a_project_takes_what_its_templates_hold_along(here)
        told = "\n".join(str(one) for one in answers)
        assert CANARY not in told
        assert SEALED not in told
        assert told.count(f'password: "{MASK}"') > 8
        stored = await rows(here) + await records(here)
        assert SEALED.encode() in stored
        assert CANARY.encode() not in stored
        assert base64.b64encode(CANARY.encode())[:20] not in stored
    said = capfd.readouterr()
    assert CANARY not in caplog.text + said.out + said.err


async def with_key(here: Door, name: str) -> Any:
    """The same request under the same key; what is kept of it is no digest that could be guessed."""
    drafted = api.WorkloadDraft(project=PROJECT, spec=git("kept", name=name))
    request = api.SubmitWorkloadRequest(draft=drafted, idempotency_key=f"key-of-{name}")
    answer = await here.workloads.SubmitWorkload(request)
    plain = hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
    kept = "SELECT body FROM idempotency WHERE key = $1"
    assert await here.app.database.pool.fetchval(kept, request.idempotency_key) not in {None, plain}
    return answer


async def test_keys_are_rotated_and_without_them_nothing_is_taken(database: Any, kafka: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    async with sealed_door(database, kafka, keys) as here:
        one = await submitted(here, git("kept", name="one"))
        await here.decide(one.id, placed("east"))
        assert await eventually(lambda: held(here, one.id)) == ["kept"]
        again = await with_key(here, "again")
        keys.write_text(key_line("k2") + keys.read_text())
        assert here.app.vault.renew()
        assert (await with_key(here, "again")).workload.id == again.workload.id
        async with here.app.database.unit() as unit:
            assert not await Rotation(here.app.vault, here.app.secrets).turn(unit)
        assert await here.app.database.pool.fetchval("SELECT key FROM secrets") == "k2"
        assert await held(here, one.id) == ["kept"]
    async with door(database, kafka) as here:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await submitted(here, git("more", name="two"))
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "MUSTER_SECRET_KEYS_FILE" in str(refused.value.details())
        assert (await here.submit(name="three")).name == "three"
