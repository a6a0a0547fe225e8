"""A11: the admin of one project writes a trigger that acts for an application with more rights."""

from __future__ import annotations

import json
import uuid
from typing import Final

import grpc

from muster.api.v1 import templates_pb2, triggers_pb2, workloads_pb2
from muster.api.v1.templates_pb2_grpc import TemplatesServiceStub
from muster.api.v1.triggers_pb2_grpc import TriggersServiceStub
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import channel
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage

_SECONDS: Final = 5.0
_NAME: Final = "attack-a11"
_PROOF: Final = "tests/rules/test_attacks_keys.py::test_without_the_comparison_of_rights_a_trigger_acts_for_an_admin"


async def _acts_as(stage: Stage, run_as: str) -> Verdict:
    metadata = tuple(stage.headers(Actor.PROJECT_ADMIN).items())
    rule = triggers_pb2.Trigger(
        name=_NAME, project=stage.project, template=_NAME, event_type="attack", event_sources=["/attack"], run_as=run_as
    )
    named = triggers_pb2.GetTriggerRequest(project=stage.project, name=_NAME)
    async with channel(stage.grpc) as opened:
        await _template(opened, stage, metadata)
        stub = TriggersServiceStub(opened)
        asked = triggers_pb2.ApplyTriggerRequest(trigger=rule, idempotency_key=str(uuid.uuid4()))
        try:
            await stub.ApplyTrigger(asked, metadata=metadata, timeout=_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
        try:
            written = (await stub.GetTrigger(named, metadata=metadata, timeout=_SECONDS)).trigger
        except grpc.aio.AioRpcError as error:
            return held(f"the trigger was not written: {error.code().name}")
        gone = triggers_pb2.DeleteTriggerRequest(project=stage.project, name=_NAME, idempotency_key=str(uuid.uuid4()))
        await stub.DeleteTrigger(gone, metadata=metadata, timeout=_SECONDS)
    return broken(f"a project admin has a trigger that acts as {written.run_as}")


async def _template(opened: grpc.aio.Channel, stage: Stage, metadata: tuple[tuple[str, str], ...]) -> None:
    spec = wl.WorkloadSpec(kind=options_pb2.KIND_TRAINING, name=_NAME, command="true", usage=wl.USAGE_TEMPLATE)
    draft = workloads_pb2.WorkloadDraft(project=stage.project, spec=spec)
    asked = templates_pb2.ApplyTemplateRequest(draft=draft, idempotency_key=str(uuid.uuid4()))
    await TemplatesServiceStub(opened).ApplyTemplate(asked, metadata=metadata, timeout=_SECONDS)


async def _as_the_administrator(stage: Stage) -> Verdict:
    """The application that the stack begins with may do everything."""
    application = json.loads((stage.data / "credentials" / "admin.json").read_text())
    return await _acts_as(stage, f"application/{application['id']}")


async def _as_another_person(stage: Stage) -> Verdict:
    """A subject's name is no secret: a trigger that acts for it would have that person's roles without groups."""
    return await _acts_as(stage, "alice")


ATTACKS: Final = (
    Attack("A11", "trigger-runs-as-system-admin", Actor.PROJECT_ADMIN, _as_the_administrator, _PROOF),
    Attack("A11", "trigger-runs-as-another-person", Actor.PROJECT_ADMIN, _as_another_person, _PROOF),
)
