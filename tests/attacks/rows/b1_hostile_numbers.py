"""B1: a number with a thousand million digits, on each channel, while other tenants work."""

from __future__ import annotations

import uuid
from typing import Final

from muster.api.v1 import templates_pb2, workloads_pb2
from muster.api.v1.templates_pb2_grpc import TemplatesServiceStub
from muster.api.v1.workloads_pb2_grpc import WorkloadsServiceStub
from muster_chassis.rpc import channel
from tests.attacks.attack import Actor, Attack, Verdict
from tests.attacks.hostile import SECONDS, http, http_status, outcome, repeatedly
from tests.attacks.stage import Stage

_NUMBERS: Final = ("1e999999999", "1e-999999999", "-1E999999999", "9" * 5_000)
_REFUSED: Final = frozenset({"INVALID_ARGUMENT"})
_REFUSED_HTTP: Final = frozenset({"400"})
_PROOF: Final = "tests/rules/test_attacks_edges.py::test_a_number_that_is_not_bounded_is_written_out_in_digits"


def _document(stage: Stage, number: str) -> str:
    return (
        "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\n"
        f"metadata: {{name: attack-b1, namespace: runai-{stage.project}}}\n"
        f"spec: {{image: {{value: x}}, command: {{value: 'true'}}, gpu: {{value: {number}}}}}\n"
    )


async def _submits(stage: Stage) -> Verdict:
    """Submits and validates documents whose `gpu` is hostile."""
    metadata, sent = tuple(stage.headers(Actor.RESEARCHER).items()), iter(range(1 << 30))
    async with channel(stage.grpc) as opened:
        stub = WorkloadsServiceStub(opened)

        async def attempt() -> str:
            number = next(sent)
            draft = workloads_pb2.WorkloadDraft(
                project=stage.project, yaml=_document(stage, _NUMBERS[number % len(_NUMBERS)])
            )
            if number % 2:
                asked = workloads_pb2.ValidateWorkloadRequest(draft=draft)
                answer = await stub.ValidateWorkload(asked, metadata=metadata, timeout=SECONDS)
                return "INVALID_ARGUMENT" if answer.violations else "OK"
            submitted = workloads_pb2.SubmitWorkloadRequest(draft=draft, idempotency_key=str(uuid.uuid4()))
            return await outcome(stub.SubmitWorkload(submitted, metadata=metadata, timeout=SECONDS))

        return await repeatedly(stage, attempt, _REFUSED)


async def _creates(stage: Stage) -> Verdict:
    """Creates over REST, with hostile numbers as JSON numbers and inside a Kubernetes document."""
    sent = iter(range(1 << 30))

    async def attempt() -> str:
        number = next(sent)
        hostile = _NUMBERS[number % len(_NUMBERS)]
        if number % 2:
            path = f"/apis/run.ai/v2alpha1/namespaces/runai-{stage.project}/trainingworkloads"
            content, media = _document(stage, hostile), "application/yaml"
        else:
            path = "/api/v1/workloads/trainings"
            content = (
                f'{{"name": "attack-b1", "projectId": "1", "spec": {{"compute": {{"cpuCoreRequest": {hostile}}}}}}}'
            )
            media = "application/json"
        status = await http_status(
            http(
                stage,
                "POST",
                path,
                actor=Actor.RESEARCHER,
                headers={"content-type": media},
                content=content.encode(),
            )
        )
        return "400" if status == "422" else status

    return await repeatedly(stage, attempt, _REFUSED_HTTP)


async def _filters(stage: Stage) -> Verdict:
    """Asks for a list with a hostile number in its filter."""
    sent = iter(range(1 << 30))

    async def attempt() -> str:
        hostile = _NUMBERS[next(sent) % len(_NUMBERS)]
        asked = f"/api/v1/workloads?filterBy=allocatedGPU%3E%3D{hostile[:900]}"
        return await http_status(http(stage, "GET", asked, actor=Actor.VIEWER))

    return await repeatedly(stage, attempt, _REFUSED_HTTP)


async def _templates(stage: Stage) -> Verdict:
    """Keeps a template whose `gpu` is hostile, from which every trigger would start."""
    metadata = tuple(stage.headers(Actor.RESEARCHER).items())
    async with channel(stage.grpc) as opened:
        stub, sent = TemplatesServiceStub(opened), iter(range(1 << 30))

        async def attempt() -> str:
            text = _document(stage, _NUMBERS[next(sent) % len(_NUMBERS)])
            draft = workloads_pb2.WorkloadDraft(project=stage.project, yaml=text)
            asked = templates_pb2.ApplyTemplateRequest(draft=draft, idempotency_key=str(uuid.uuid4()))
            return await outcome(stub.ApplyTemplate(asked, metadata=metadata, timeout=SECONDS))

        return await repeatedly(stage, attempt, frozenset({"INVALID_ARGUMENT", "PERMISSION_DENIED"}))


ATTACKS: Final = (
    Attack("B1", "hostile-number-in-submissions", Actor.RESEARCHER, _submits, _PROOF, noisy=True),
    Attack("B1", "hostile-number-over-rest", Actor.RESEARCHER, _creates, _PROOF, noisy=True),
    Attack("B1", "hostile-number-in-filters", Actor.VIEWER, _filters, _PROOF, noisy=True),
    Attack("B1", "hostile-number-in-templates", Actor.RESEARCHER, _templates, _PROOF, noisy=True),
)
