"""Applying documents over the real PostgreSQL: twice is one workload, and what cannot change is refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from tests.support.doors import Door, door, key, moved, violations
from tests.support.waiting import eventually

CREATED, UNCHANGED, CHANGED = (
    api.APPLY_OUTCOME_CREATED,
    api.APPLY_OUTCOME_UNCHANGED,
    api.APPLY_OUTCOME_CHANGED,
)
HEAD = "apiVersion: run.ai/v2alpha1\nkind: {kind}\nmetadata: {{{metadata}}}\nspec:\n  image: {{value: ubuntu}}\n"
INFERENCE = "InferenceWorkload"


def document(body: str = "", *, metadata: str = "name: one", kind: str = "TrainingWorkload") -> str:
    return HEAD.format(kind=kind, metadata=metadata) + body


async def applied(here: Door, text: str, **more: Any) -> api.ApplyWorkloadResponse:
    draft = api.WorkloadDraft(project="team-a", yaml=text)
    return await here.workloads.ApplyWorkload(api.ApplyWorkloadRequest(draft=draft, idempotency_key=key(), **more))


async def refused(here: Door, text: str) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await applied(here, text)
    return caught.value


async def names(here: Door) -> list[str]:
    return [one.name for one in (await here.workloads.ListWorkloads(api.ListWorkloadsRequest())).workloads]


async def test_twice_is_one_workload(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        prefixed = document("  namePrefix: {value: sweep}\n  memory: {value: 4Gi}\n")
        first = await applied(here, prefixed)
        assert (first.outcome, first.workload.name) == (CREATED, "sweep-0")
        again = await applied(here, prefixed.replace("4Gi", "4096Mi"))
        assert (again.outcome, again.workload.id) == (UNCHANGED, first.workload.id)

        got = await here.workloads.GetWorkload(api.GetWorkloadRequest(workload=api.WorkloadRef(id=first.workload.id)))
        assert "namespace: runai-team-a\n" in got.yaml
        back = await applied(here, got.yaml)
        unaided = api.ApplyWorkloadRequest(draft=api.WorkloadDraft(yaml=got.yaml), idempotency_key=key())
        assert (await here.workloads.ApplyWorkload(unaided)).outcome == UNCHANGED, "its document says its project"
        assert (back.outcome, back.workload.id) == (UNCHANGED, first.workload.id)

        twins = await asyncio.gather(*(applied(here, document(metadata="name: twin")) for _ in range(8)))
        assert sorted(one.outcome for one in twins) == [CREATED, *[UNCHANGED] * 7]
        assert len({one.workload.id for one in twins}) == 1
        other_kind = await applied(here, document(metadata="name: one", kind="InteractiveWorkload"))
        assert (other_kind.outcome, other_kind.workload.name) == (CREATED, "one")
        assert sorted(await names(here)) == ["one", "sweep-0", "twin"]

        submitted = await here.submit(name="sent", image="ubuntu")
        taken = await refused(here, document("  command: {value: other}\n", metadata="name: sent"))
        assert taken.code() is grpc.StatusCode.FAILED_PRECONDITION
        adopted = await applied(here, document('  command: {value: "true"}\n', metadata="name: sent"))
        assert (adopted.outcome, adopted.workload.id) == (UNCHANGED, submitted.id)


async def test_what_cannot_change_is_named_and_nothing_changes(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        made = await applied(here, document("  gpuDevices: {value: 1}\n"))
        wrong = await refused(here, document("  gpuDevices: {value: 2}\n  memory: {value: 1Gi}\n"))
        assert wrong.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "gpuDevices, memory of one cannot change" in (wrong.details() or "")
        assert (await here.get(made.workload.id)).generation == 1

        unnamed = await refused(here, document("  namePrefix: {value: x}\n", metadata=""))
        assert unnamed.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert list(violations(unnamed)) == ["metadata.name"]

        serving = "  ports: {items: {http: {value: {container: 8000}}}}\n"
        served = await applied(here, document(serving, metadata="name: svc", kind=INFERENCE))
        newer = document(serving, metadata="name: svc", kind=INFERENCE).replace("ubuntu", "ubuntu:24.04")
        changed = await applied(here, newer)
        assert (changed.outcome, changed.workload.generation) == (CHANGED, 2)
        assert changed.workload.id == served.workload.id
        assert (await applied(here, newer)).outcome == UNCHANGED


async def test_a_service_changes_and_is_steered_by_one_document(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()

        def serving(image: str, active: str = "") -> str:
            spec = f"  ports: {{items: {{http: {{value: {{container: 8000}}}}}}}}\n{active}"
            return document(spec, metadata="name: svc", kind=INFERENCE).replace("ubuntu", image)

        held = "  active: {value: false}\n"
        made = (await applied(here, serving("v1", held))).workload
        changed = await applied(here, serving("v2", held))
        assert (changed.outcome, changed.workload.generation) == (CHANGED, 2)
        # What is stored says `active: false` still: a document that says otherwise, or nothing, changes no field by it.
        resumed = await applied(here, serving("v3", "  active: {value: true}\n"))
        assert (resumed.outcome, resumed.workload.generation) == (CHANGED, 3)
        silent = await applied(here, serving("v4"))
        assert (silent.outcome, silent.workload.generation) == (CHANGED, 4)
        assert (await here.get(made.id)).spec.image == "v4"


async def test_what_has_ended_is_made_anew_under_its_name(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        first = (await applied(here, document())).workload
        await here.decide(first.id, moved(wl.PHASE_RUNNING))
        await here.decide(first.id, moved(wl.PHASE_COMPLETED))
        await eventually(lambda: here.get(first.id), lambda one: one.phase == wl.PHASE_COMPLETED)

        second = await applied(here, document())
        assert (second.outcome, second.workload.name) == (CREATED, "one")
        assert second.workload.id != first.id
        assert (await applied(here, document())).workload.id == second.workload.id

        await here.decide(second.workload.id, moved(wl.PHASE_RUNNING))
        await eventually(lambda: here.get(second.workload.id), lambda one: one.phase == wl.PHASE_RUNNING)
        held = await applied(here, document("  active: {value: false}\n"))
        assert (held.outcome, held.workload.id) == (CHANGED, second.workload.id)


async def test_the_verdict_on_a_change_is_waited_for(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        serving = document("  ports: {items: {http: {value: {container: 8000}}}}\n", metadata="name: s", kind=INFERENCE)
        made = (await applied(here, serving)).workload
        await here.admit(made)
        await eventually(lambda: here.get(made.id), lambda one: one.HasField("effective_spec"))

        waiting = asyncio.create_task(applied(here, serving.replace("ubuntu", "other"), wait_for_verdict_ms=5000))
        changed = await eventually(lambda: here.get(made.id), lambda one: one.generation == 2)
        await here.reject(changed, "no such image")
        answer = await waiting
        assert answer.outcome == CHANGED
        assert list(answer.workload.issues) == ["compute.gpuDevicesRequest: no such image"]


async def test_a_name_that_was_let_go_and_submitted_again_is_the_new_workload(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        text = document('  command: {value: "true"}\n', metadata="name: again")
        first = (await applied(here, text)).workload
        await here.reject(first, "not now")
        await eventually(lambda: here.get(first.id), lambda one: one.phase == wl.PHASE_FAILED)
        submitted = await here.submit(name="again", image="ubuntu")
        changed = await applied(here, text)
        assert (changed.outcome, changed.workload.id) == (UNCHANGED, submitted.id)
