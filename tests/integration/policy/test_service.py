"""Policy as a process, on the real Kafka and PostgreSQL: verdicts, waiting, repeats, another policy, kill -9."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.api.v1 import policies_pb2, policies_pb2_grpc
from muster.events.v1 import policy_pb2
from muster.events.v1.submission_pb2 import ProjectChanged
from muster_chassis.codec import MessageDecoder
from muster_chassis.rpc import ServiceName
from muster_chassis.topics import ADMISSIONS, SUBMISSIONS, TENANCY
from tests.support.identities import channel_to
from tests.support.policy_books import submission
from tests.support.processes import service
from tests.support.stations import Journal, Station, station
from tests.support.waiting import eventually, until

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
    changed.project.name, changed.project.version = "team-a", version
    changed.project.default_node_pools.extend(pools)
    async with sender.database.unit() as unit:
        unit.publish(TENANCY, "project/team-a", changed)


async def test_the_service(database: Any, kafka: str, tmp_path: Path) -> None:
    file = tmp_path / "house.yaml"
    file.write_text("defaults: {backoffLimit: 2}\nrules: {compute: {gpuDevicesRequest: {max: 4}}}\n")
    policy = {"database": database.url("policy"), "kafka": kafka, "MUSTER_POLICY_FILE": str(file)}
    async with (
        station("submission", database.url("submission"), kafka) as sender,
        station("scheduler", database.url("scheduler"), kafka) as listener,
        service("policy", tmp_path, **policy) as running,
    ):
        sender.relay()
        heard = Heard()
        listener.consume(heard, ADMISSIONS, decoder=DECODER)
        await running.ready()

        await publish(sender, 1, needs=2, gpu_devices_request=2)
        await change_project(sender, 1)
        await publish(sender, 2, needs=1, gpu_devices_request=8)
        await until(lambda: len(heard.messages) == 1)
        [refused] = heard.messages
        assert [(each.path, each.rule, each.policy) for each in refused.issues] == [
            ("compute.gpuDevicesRequest", "max", "house")
        ]
        await change_project(sender, 2, "h100")
        await until(lambda: len(heard.messages) == 2)
        admitted = heard.messages[1]
        assert (admitted.name, admitted.effective_spec.name) == ("w-1", "w-1")
        assert (admitted.effective_spec.backoff_limit, list(admitted.node_pools)) == (2, ["h100"])

        async with channel_to(ServiceName.POLICY, running.grpc) as open_channel:
            stub = policies_pb2_grpc.PoliciesServiceStub(open_channel)

            async def version() -> str:
                answer = await stub.GetEffectivePolicy(policies_pb2.GetEffectivePolicyRequest(), timeout=5)
                assert answer.policies[0].name == "house"
                return answer.policies[0].version

            before = await version()
            file.write_text("rules: {comput: {}}\n")
            await eventually(_text_of(running.log), lambda text: "comput: unknown path" in text)
            assert await version() == before
            file.write_text("rules: {}\n")
            await eventually(version, lambda now: now != before)

        running.kill()
        await publish(sender, 3, needs=2, gpu_devices_request=8)
        await publish(sender, 1, needs=2, gpu_devices_request=2)
        async with service("policy", tmp_path, **policy) as again:
            await until(lambda: len(heard.messages) == 4)
            assert heard.messages[2] == admitted or heard.messages[3] == admitted
            assert sorted(message.name for message in heard.messages) == ["w-1", "w-1", "w-2", "w-3"]
            assert await again.end() == 0


def _text_of(path: Path) -> Any:
    async def look() -> str:
        return path.read_text()  # noqa: ASYNC240 - a short log

    return look


async def test_a_policy_file_that_is_none_ends_the_start(database: Any, kafka: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("rules: {numWorkers: {max: many}}\n")
    async with service(
        "policy", tmp_path, database=database.url("policy"), kafka=kafka, MUSTER_POLICY_FILE=str(file)
    ) as running:
        await until(lambda: running.process.poll() is not None)
        assert running.process.returncode == 1
        assert "many is not a value of numWorkers" in running.log.read_text()
