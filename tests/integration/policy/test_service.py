"""Policy as a process, on the real Kafka and PostgreSQL: writes, verdicts, waiting, repeats, history, kill -9."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from muster.api.v1 import policies_pb2 as pb
from muster.api.v1 import policies_pb2_grpc
from muster.events.v1 import policy_pb2
from muster.events.v1.submission_pb2 import ProjectChanged
from muster_chassis.codec import MessageDecoder
from muster_chassis.rpc import ServiceName
from muster_chassis.topics import ADMISSIONS, SUBMISSIONS, TENANCY
from tests.support.identities import channel_to
from tests.support.policy_books import submission
from tests.support.processes import service
from tests.support.stations import Journal, Station, station
from tests.support.waiting import until

DECODER = MessageDecoder([policy_pb2.WorkloadAdmitted, policy_pb2.WorkloadRejected])


@dataclass
class Heard(Journal):
    """The verdicts that came."""

    messages: list[Any] = field(default_factory=list)

    async def __call__(self, unit: Any, events: Any) -> None:
        unit.after_commit(lambda: self.note(events))

    def note(self, events: Any) -> None:
        self.handled.extend((event.aggregate, event.version) for event in events)
        self.messages.extend(event.message for event in events)


async def publish(sender: Station, *numbers: int, needs: int = 1, **spec: Any) -> None:
    async with sender.database.unit() as unit:
        for number in numbers:
            made = submission(number, needs=needs, **spec).submitted
            unit.publish(SUBMISSIONS, made.workload_id, made)


async def change_project(sender: Station, version: int, *pools: str) -> None:
    changed = ProjectChanged()
    changed.project.name, changed.project.version, changed.project.namespace = "team-a", version, "science"
    changed.project.default_node_pools.extend(pools)
    async with sender.database.unit() as unit:
        unit.publish(TENANCY, "project/team-a", changed)


POLICY = """\
kind: Policy
name: house
workload: training
scope: tenant
policy: {defaults: {backoffLimit: 2}, rules: {compute: {gpuDevicesRequest: {max: 4}}}}
"""
AUTHOR = pb.PolicyAuthor(subject="anna", channel="grpc", reach=pb.PolicyReach(tenant=True))


def applying(text: str, key: str, **fields: Any) -> pb.ApplyPoliciesRequest:
    texts = [pb.PolicyText(text=text, file="house.yaml")]
    return pb.ApplyPoliciesRequest(texts=texts, idempotency_key=key, author=AUTHOR, **fields)


V1 = """\
apiVersion: run.ai/v2alpha1
kind: InteractivePolicy
metadata: {name: notebooks, namespace: science}
spec:
  gpu: {rules: {max: 1}}
"""


async def v1_documents(stub: policies_pb2_grpc.PoliciesServiceStub) -> None:
    """A document of v1 is for the project of its namespace, when it is written and when it is rolled back."""
    made = (await stub.ApplyPolicies(applying(V1, "5"), timeout=5)).policies[0].policy
    assert (made.workload, made.scope.level, made.scope.unit) == ("workspace", "project", "team-a")
    await stub.ApplyPolicies(applying(V1.replace("max: 1", "max: 2"), "6"), timeout=5)
    back = await stub.RollbackPolicy(
        pb.RollbackPolicyRequest(key=pb.PolicyKey(id=made.id), version=1, idempotency_key="7", author=AUTHOR), timeout=5
    )
    assert (back.policy.policy.version, back.policy.policy.document) == (3, V1)
    with pytest.raises(grpc.aio.AioRpcError) as bad:
        await stub.ApplyPolicies(applying(V1.replace("science", "arts"), "8"), timeout=5)
    assert bad.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "arts is not the namespace of a project" in (bad.value.details() or "")


async def test_the_service(database: Any, kafka: str, tmp_path: Path) -> None:
    policy = {"database": database.url("policy"), "kafka": kafka}
    async with (
        station("submission", database.url("submission"), kafka) as sender,
        station("scheduler", database.url("scheduler"), kafka) as listener,
        service("policy", tmp_path, **policy) as running,
    ):
        sender.relay()
        heard = Heard()
        listener.consume(heard, ADMISSIONS, decoder=DECODER)
        await running.ready()
        async with channel_to(ServiceName.POLICY, running.grpc) as open_channel:
            stub = policies_pb2_grpc.PoliciesServiceStub(open_channel)
            made = await stub.ApplyPolicies(applying(POLICY, "1"), timeout=5)
            assert [each.outcome for each in made.policies] == [pb.POLICY_OUTCOME_CREATED]
            assert await stub.ApplyPolicies(applying(POLICY, "1"), timeout=5) == made  # once

            await publish(sender, 1, needs=2, gpu_devices_request=2)
            await change_project(sender, 1)
            await publish(sender, 2, needs=1, gpu_devices_request=8)
            await until(lambda: len(heard.messages) == 1)
            [refused] = heard.messages
            assert [(each.path, each.rule, each.policy, each.version) for each in refused.issues] == [
                ("compute.gpuDevicesRequest", "max", "house", 1)
            ]
            await change_project(sender, 2, "h100")
            await until(lambda: len(heard.messages) == 2)
            admitted = heard.messages[1]
            assert (admitted.name, admitted.effective_spec.name) == ("w-1", "w-1")
            assert (admitted.effective_spec.backoff_limit, list(admitted.node_pools)) == (2, ["h100"])
            assert admitted.policy_revision == made.revision

            with pytest.raises(grpc.aio.AioRpcError) as bad:
                await stub.ApplyPolicies(applying(POLICY.replace("max: 4", "atMost: 4"), "2"), timeout=5)
            assert bad.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "house.yaml:5:" in (bad.value.details() or "")
            looser = await stub.ApplyPolicies(applying(POLICY.replace("max: 4", "max: 9"), "3", reason="r"), timeout=5)
            await publish(sender, 4, needs=2, gpu_devices_request=8)
            await until(lambda: len(heard.messages) == 3)
            assert heard.messages[2].policy_revision == looser.revision

            key = pb.PolicyKey(id=made.policies[0].policy.id)
            history = await stub.ListPolicyVersions(pb.ListPolicyVersionsRequest(key=key), timeout=5)
            assert [(each.version, each.author, each.reason) for each in history.versions] == [
                (2, "anna", "r"),
                (1, "anna", ""),
            ]
            back = await stub.RollbackPolicy(
                pb.RollbackPolicyRequest(key=key, version=1, idempotency_key="4", author=AUTHOR), timeout=5
            )
            assert (back.policy.policy.version, back.policy.policy.document) == (3, POLICY)
            effective = await stub.GetEffectivePolicy(
                pb.GetEffectivePolicyRequest(project="team-a", workload="training"), timeout=5
            )
            assert [(each.path, each.rule, each.value, each.policy.version) for each in effective.rules] == [
                ("compute.gpuDevicesRequest", "max", "4", 3)
            ]
            assert [(each.path, each.value) for each in effective.defaults] == [("backoffLimit", "2")]
            await v1_documents(stub)

        running.kill()
        await publish(sender, 3, needs=2, gpu_devices_request=8)
        await publish(sender, 1, needs=2, gpu_devices_request=2)
        async with service("policy", tmp_path, **policy) as again:
            await until(lambda: len(heard.messages) == 5)
            assert admitted in heard.messages[3:]
            assert sorted(message.name for message in heard.messages) == ["w-1", "w-1", "w-2", "w-3", "w-4"]
            assert await again.end() == 0


@pytest.mark.parametrize(("text", "starts"), [("rules: {numWorkers: {max: 4}}\n", False), ("# no\nname: a\n", True)])
async def test_an_old_policy_file_that_rules_something_ends_the_start(
    database: Any, kafka: str, tmp_path: Path, text: str, starts: bool
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(text)
    async with service(
        "policy", tmp_path, database=database.url("policy"), kafka=kafka, MUSTER_POLICY_FILE=str(file)
    ) as running:
        if starts:
            await running.ready()
            return
        await until(lambda: running.process.poll() is not None)
        assert running.process.returncode == 1
        assert "muster policies apply" in running.log.read_text()
