"""From a call to the record on the topic and to the read model, over the real Kafka and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from muster.api.v1 import explain_pb2
from muster.api.v1 import workloads_pb2 as api
from muster.events.v1 import submission_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.codec import MessageDecoder
from muster_chassis.topics import SUBMISSIONS
from tests.support.doors import PROJECT, Door, door, draft, key, moved, placed, violations
from tests.support.stations import Journal
from tests.support.waiting import eventually, until

DECODER = MessageDecoder(
    [
        submission_pb2.WorkloadSubmitted,
        submission_pb2.SpecChanged,
        submission_pb2.SuspendRequested,
        submission_pb2.ResumeRequested,
        submission_pb2.DeletionRequested,
    ]
)


@dataclass
class Heard(Journal):
    """The events that came."""

    events: list[Any] = field(default_factory=list)

    async def __call__(self, unit: Any, events: Any) -> None:
        unit.after_commit(lambda: self.events.extend(events))

    def of(self, workload_id: str) -> list[str]:
        return [one.type.rpartition(".")[2] for one in self.events if one.aggregate == workload_id]


async def shown(here: Door, workload_id: str, *phases: wl.Phase.ValueType) -> wl.Workload:
    return await eventually(lambda: here.get(workload_id), lambda one: one.phase in phases)


async def test_the_road(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        heard = Heard()
        here.scheduler.consume(heard, SUBMISSIONS, decoder=DECODER, assigned=True)
        await here.project()
        made = await here.submit(name="first", gpu_devices_request=1)
        assert (made.phase, made.name, made.generation) == (wl.PHASE_CREATING, "first", 1)
        await until(lambda: heard.events)
        [event] = heard.events
        assert (event.version, event.message.name, event.message.namespace) == (1, "first", "runai-team-a")
        assert (event.message.tenancy_version, event.message.department) == (1, "default")
        assert event.message.owner.subject == "local"
        assert event.message.spec == made.spec

        await here.admit(made, backoff_limit=3)
        await here.decide(
            made.id, placed(), moved(wl.PHASE_INITIALIZING), moved(wl.PHASE_RUNNING, endpoints=["http://x"])
        )
        now = await shown(here, made.id, wl.PHASE_RUNNING)
        now = await eventually(lambda: here.get(made.id), lambda one: one.HasField("effective_spec"))
        assert (now.cluster, now.attempt, list(now.endpoints)) == ("east", 1, ["http://x"])
        assert now.effective_spec.backoff_limit == 3
        assert now.HasField("started_at")

        ref = api.WorkloadRef(project="team-a", name="first")
        await here.workloads.SuspendWorkload(api.SuspendWorkloadRequest(workload=ref, idempotency_key=key()))
        await here.workloads.ResumeWorkload(api.ResumeWorkloadRequest(workload=ref, idempotency_key=key()))
        await here.workloads.DeleteWorkload(api.DeleteWorkloadRequest(workload=ref, idempotency_key=key()))
        await until(lambda: len(heard.events) == 4)
        assert heard.of(made.id) == ["WorkloadSubmitted", "SuspendRequested", "ResumeRequested", "DeletionRequested"]

        await here.decide(made.id, moved(wl.PHASE_DELETING), moved(wl.PHASE_DELETED))
        await shown(here, made.id, wl.PHASE_DELETED)
        listed = await here.workloads.ListWorkloads(api.ListWorkloadsRequest())
        assert not listed.workloads
        again = await here.submit(name="first")
        assert again.id != made.id
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.workloads.SuspendWorkload(
                api.SuspendWorkloadRequest(workload=api.WorkloadRef(id=made.id), idempotency_key=key())
            )
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_question_about_a_name_that_is_taken_is_refused_as_its_submission_is(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.submit(name="first")
        told = []
        with pytest.raises(grpc.aio.AioRpcError) as submission:
            await here.submit(name="first")
        told.append((submission.value.code(), submission.value.details()))
        with pytest.raises(grpc.aio.AioRpcError) as question:
            await here.explain.WhatIf(explain_pb2.WhatIfRequest(drafts=[draft(name="other"), draft(name="first")]))
        told.append((question.value.code(), question.value.details()))
        document = "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata: {name: first}\nspec: {}\n"
        asked = api.WorkloadDraft(project=PROJECT, yaml=document)
        with pytest.raises(grpc.aio.AioRpcError) as written:
            await here.explain.WhatIf(explain_pb2.WhatIfRequest(drafts=[asked]))
        told.append((written.value.code(), written.value.details()))
        assert told[0] == told[1] == told[2]
        assert told[0][0] is grpc.StatusCode.ALREADY_EXISTS


async def test_a_verdict_is_waited_for(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        early = await here.submit(name="early")  # the consumers have joined once this one is admitted
        await here.admit(early)
        await eventually(lambda: here.get(early.id), lambda one: one.HasField("effective_spec"))

        waiting = asyncio.create_task(here.submit(name="w", wait=5000))
        filtered = api.ListWorkloadsRequest(filter=api.WorkloadFilter(name_prefix="w"))
        made = await eventually(lambda: here.workloads.ListWorkloads(filtered), lambda page: bool(page.workloads))
        await here.reject(made.workloads[0], "8 is too many: at most 4")
        answer = await waiting
        assert answer.phase == wl.PHASE_FAILED
        assert list(answer.issues) == ["compute.gpuDevicesRequest: 8 is too many: at most 4"]
        assert answer.reason.code == "PolicyRefused"
        again = await here.submit(name="w", wait=50)  # a refused workload has let its name go
        assert again.phase == wl.PHASE_CREATING


async def test_the_same_key_gives_the_same_answer(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        one = key()
        answers = await asyncio.gather(*(here.submit(name="w", idempotency=one) for _ in range(5)))
        assert len({answer.id for answer in answers}) == 1
        with pytest.raises(grpc.aio.AioRpcError) as other:
            await here.submit(name="v", idempotency=one)
        assert other.value.code() is grpc.StatusCode.ALREADY_EXISTS
        with pytest.raises(grpc.aio.AioRpcError) as taken:
            await here.submit(name="w")
        assert taken.value.code() is grpc.StatusCode.ALREADY_EXISTS
        assert "name 'w' is taken in project team-a" in (taken.value.details() or "")
        with pytest.raises(grpc.aio.AioRpcError) as keyless:
            await here.workloads.SubmitWorkload(api.SubmitWorkloadRequest(draft=draft(name="x")))
        assert "idempotency_key" in violations(keyless.value)


async def test_bulk_answers_each(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.submit(name="taken")
        await here.submit(name="n-1")
        drafts = [
            draft(name_prefix="n"),
            draft(name="taken"),
            draft(name="twice"),
            draft(name="twice"),
            draft(name="x", gpu_portion_request=1.5),
            draft(project="nowhere", name="x"),
            draft(name_prefix="n"),
            draft(name="x", base_workload="ghost"),
            api.WorkloadDraft(project="team-a", yaml="kind: TrainingWorkload\nspec:\n  imagePulPolicy: {value: 1}\n"),
        ]
        asked = api.SubmitWorkloadsRequest(drafts=drafts, idempotency_key=key())
        answer = await here.workloads.SubmitWorkloads(asked)
        codes = [grpc.StatusCode(next(c for c in grpc.StatusCode if c.value[0] == one.code)) for one in answer.outcomes]
        status = grpc.StatusCode
        assert codes == [
            status.OK,
            status.ALREADY_EXISTS,
            status.OK,
            status.ALREADY_EXISTS,
            status.INVALID_ARGUMENT,
            status.NOT_FOUND,
            status.OK,
            status.NOT_FOUND,
            status.INVALID_ARGUMENT,
        ]
        assert [answer.outcomes[at].name for at in (0, 2, 6)] == ["n-0", "twice", "n-2"]
        assert "there are team-a" in answer.outcomes[5].message
        wrong = answer.outcomes[8].violations
        assert any((one.path, one.line) == ("spec.imagePulPolicy", 3) for one in wrong)
        assert await here.workloads.SubmitWorkloads(asked) == answer
        listed = await here.workloads.ListWorkloads(api.ListWorkloadsRequest())
        assert [one.name for one in listed.workloads] == ["n-2", "twice", "n-0", "n-1", "taken"]

        most = [draft(name_prefix="m") for _ in range(1001)]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.workloads.SubmitWorkloads(api.SubmitWorkloadsRequest(drafts=most, idempotency_key=key()))
        assert refused.value.code() is status.INVALID_ARGUMENT
        answer = await here.workloads.SubmitWorkloads(
            api.SubmitWorkloadsRequest(drafts=most[:1000], idempotency_key=key())
        )
        assert [one.name for one in answer.outcomes] == [f"m-{number}" for number in range(1000)]


async def test_every_error_at_once(database: Any, kafka: str) -> None:
    document = """
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {name: Bad_Name, namespace: runai-team-a}
spec:
  gpu: {value: 1.5}
  imagePulPolicy: {value: Always}
"""
    async with door(database, kafka) as here:
        await here.project()
        asked = api.SubmitWorkloadRequest(draft=api.WorkloadDraft(yaml=document), idempotency_key=key())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.workloads.SubmitWorkload(asked)
        found = violations(refused.value)
        assert {"metadata.name", "spec.gpu.value", "spec.imagePulPolicy"} <= found.keys()
        assert found["spec.gpu.value"].startswith("6:")
        checked = await here.workloads.ValidateWorkload(api.ValidateWorkloadRequest(draft=asked.draft))
        assert len(checked.violations) == len(found)
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await here.workloads.SubmitWorkload(
                api.SubmitWorkloadRequest(draft=draft(project="nowhere", name="x"), idempotency_key=key())
            )
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND
        assert "muster projects create nowhere" in (missing.value.details() or "")
