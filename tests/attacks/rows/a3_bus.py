"""A3: Kafka used by those who should not: no login, a wrong password, another cluster's agent, a program outside."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from muster.fleet.v1 import fleet_pb2
from muster_chassis.topics import assignments, reports
from muster_kernel.ids import uuid7
from muster_stack.bus.identities import Identities, Identity, client_options
from muster_stack.errors import StackError
from muster_stack.keeper.control import Stack
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.bus import Options, agent_login, clusters, judge, login, quietly, read, write
from tests.attacks.stage import Stage

_OUTSIDER: Final = "attacker"


def _command() -> tuple[str, bytes]:
    """The key and value of an Assignment that no scheduler wrote."""
    workload = uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10))
    return workload, fleet_pb2.Assignment(workload_id=workload, epoch=1, project="attack").SerializeToString()


async def _may_not_write(stage: Stage, who: str, options: Options, topic: str, value: bytes, key: str = "a") -> Verdict:
    """Judged by what is on the topic afterwards, read by the stack's own identity."""
    with quietly():
        why = await write(options, topic, value, key)
        there, _ = await read(judge(stage), topic)
    if value in there:
        return broken(f"{who} wrote {topic}")
    return held(f"{who} could not write {topic}: {why or 'the record is not there'}")


async def _may_not_read(stage: Stage, who: str, options: Options, topic: str) -> Verdict:
    with quietly():
        found, why = await read(options, topic)
        there, _ = await read(judge(stage), topic)
    if found:
        return broken(f"{who} read {len(found)} records of {topic}")
    return held(f"{who} read none of the {len(there)} records of {topic}: {why}")


async def _stranger_commands(stage: Stage) -> Verdict:
    cluster = clusters(stage)[0]
    key, value = _command()
    options = {"bootstrap_servers": stage.bootstrap}
    return await _may_not_write(stage, "a process without a login", options, assignments(cluster).name, value, key)


async def _stranger_reads(stage: Stage) -> Verdict:
    options = {"bootstrap_servers": stage.bootstrap}
    return await _may_not_read(stage, "a process without a login", options, "muster.submissions")


async def _guesses(stage: Stage) -> Verdict:
    options = client_options(stage.bootstrap, Identity("scheduler", "scheduler"))
    return await _may_not_read(stage, "a guessed password", options, "muster.submissions")


async def _agent_reads_others(stage: Stage) -> Verdict:
    mine, theirs = await _two_clusters(stage)
    return await _may_not_read(stage, f"the agent of {mine}", agent_login(stage, mine), assignments(theirs).name)


async def _two_clusters(stage: Stage) -> tuple[str, str]:
    """A cluster, and another one that has work: of nothing, nothing could be read."""
    there = clusters(stage)
    busy = [name for name in there if (await read(judge(stage), assignments(name).name))[0]]
    theirs = busy[0] if busy else there[-1]
    return next(name for name in there if name != theirs), theirs


async def _agent_reads_specs(stage: Stage) -> Verdict:
    mine = clusters(stage)[0]
    return await _may_not_read(stage, f"the agent of {mine}", agent_login(stage, mine), "muster.submissions")


async def _agent_reports_for_others(stage: Stage) -> Verdict:
    mine, theirs = clusters(stage)[:2]
    value = b"attack " + secrets.token_bytes(8)
    who = f"the agent of {mine}"
    return await _may_not_write(stage, who, agent_login(stage, mine), reports(theirs).name, value)


async def _agent_commands_itself(stage: Stage) -> Verdict:
    mine = clusters(stage)[0]
    key, value = _command()
    topic = assignments(mine).name
    return await _may_not_write(stage, f"the agent of {mine}", agent_login(stage, mine), topic, value, key)


async def _outsider_decides(stage: Stage) -> Verdict:
    name = f"producer-{_OUTSIDER}"
    if not Identities(stage.layout.bus_identities).file(name).exists():
        try:
            await asyncio.to_thread(Stack(stage.layout).grant_producer, "muster.triggers", _OUTSIDER)
        except StackError as error:
            return broken(f"no identity for a program outside: {error}")
    value = b"attack " + secrets.token_bytes(8)
    return await _may_not_write(stage, "a program outside", login(stage, name), "muster.decisions", value)


OPEN: Final = "tests/rules/test_attacks_bus.py::test_a_kafka_without_logins_is_everyones"
GUESSED: Final = "tests/rules/test_attacks_bus.py::test_a_password_that_can_be_guessed_is_guessed"
UNRULED: Final = "tests/rules/test_attacks_bus.py::test_without_access_rules_every_login_reaches_everything"
ATTACKS: Final = (
    Attack("A3", "bus-stranger-commands-a-cluster", Actor.LOOPBACK, _stranger_commands, OPEN),
    Attack("A3", "bus-stranger-reads-submissions", Actor.LOOPBACK, _stranger_reads, OPEN),
    Attack("A3", "bus-guessed-password", Actor.LOOPBACK, _guesses, GUESSED),
    Attack("A3", "bus-agent-reads-another-cluster", Actor.LOOPBACK, _agent_reads_others, UNRULED),
    Attack("A3", "bus-agent-reads-submissions", Actor.LOOPBACK, _agent_reads_specs, UNRULED),
    Attack("A3", "bus-agent-reports-for-another-cluster", Actor.LOOPBACK, _agent_reports_for_others, UNRULED),
    Attack("A3", "bus-agent-writes-its-own-assignments", Actor.LOOPBACK, _agent_commands_itself, UNRULED),
    Attack("A3", "bus-outsider-writes-decisions", Actor.LOOPBACK, _outsider_decides, UNRULED),
)
