"""Rule 7 for a cluster that is silent for good: its devices return only after every replica has ended by itself.

Taken out here: waiting for the agent's own deadline (the scheduler believes its setting alone), refusing the opt-in
where the agent has none, and holding replicas to a deadline that the bus has acknowledged (the cluster file alone
counts, as it did).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster_cluster_agent.adapters.local.dead_man import DeadMan
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.replicas import Replica
from muster_kernel.lifecycle import Phase
from muster_scheduler.commands import releasable
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.fleet.clusters import Cluster
from muster_scheduler.errors import NoDeadMan
from tests.support.fleets import Fleet, node

# ------------------------------------------------------------------------------------------------ the scheduler's half


def _given_up_after(dead_man: int, *, lost_timeout: int = 900) -> int:
    """After how many seconds of silence, in steps of 10, a cluster's replicas count as gone; -1: not within 2 hours."""
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    fleet.run(1)
    fleet.send(events.ClusterRegistered("c1", lost_timeout))
    fleet.dead_man["c1"] = dead_man
    fleet.wait(0)
    for silent in range(10, 7200, 10):
        fleet.now += 10 * SECOND
        fleet.send()
        if workload.phase not in {Phase.RUNNING, Phase.UNKNOWN}:
            return silent
    return -1


@pytest.mark.parametrize("dead_man", [60, 840, 900, 3600])
def test_devices_return_after_the_supervisors_deadline(dead_man: int) -> None:
    assert _given_up_after(dead_man) > max(dead_man, 900) + 60


def test_without_a_deadline_they_never_return_by_time() -> None:
    assert _given_up_after(0) == -1
    assert _given_up_after(840, lost_timeout=0) == -1


def test_by_the_schedulers_setting_alone_devices_are_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "released_after", property(lambda cluster: cluster.lost_timeout))
    assert 0 < _given_up_after(3600) < 3600, "supervisors hold the devices for an hour"
    assert _given_up_after(0) > 0, "supervisors hold them for ever"


def _opted_in(dead_man: int) -> bool:
    fleet = Fleet(node("n1", 1))
    fleet.dead_man["c1"] = dead_man
    fleet.wait(0)
    try:
        releasable(fleet.state, "c1", 900)
    except NoDeadMan:
        return False
    return True


def test_the_opt_in_needs_an_agent_that_ends_its_replicas() -> None:
    assert _opted_in(840)
    assert not _opted_in(0)


# ---------------------------------------------------------------------------------------------------- the agent's half


@dataclass
class Folder:
    """What `DeadMan` uses of a state folder; it outlives the agent."""

    alive: Path
    numbers: dict[str, int] = field(default_factory=dict)

    def read_number(self, name: str) -> int:
        return self.numbers.get(name, 0)

    def keep_number(self, name: str, value: int) -> None:
        self.numbers[name] = value

    def tell_alive(self, content: bytes) -> None:
        self.alive.write_bytes(content)


class Cut:
    """An agent whose bus may be cut at any time: what it has told, and what its replicas are held to."""

    def __init__(self, folder: Path, kind: type[DeadMan]) -> None:
        self._kind = kind
        self._folder = Folder(folder / "alive.json")
        self._register = Register()
        self._started = 0
        self.declared: float | None = None
        self.told: list[float | None] = []
        self.acknowledged = -1  # the last heartbeat that the bus acknowledged; those after it may have been heard too
        self.first = 0  # the first heartbeat of the agent that runs now
        self.restart()

    def restart(self) -> None:
        async def blocking(work: Callable[[], None]) -> None:
            work()

        state = cast("Any", self._folder)
        self.first = len(self.told)
        self.dead_man = self._kind(state, lambda: self.declared, self._register, blocking)

    async def beat(self) -> None:
        self.told.append(await self.dead_man.told())

    async def acknowledge(self) -> None:
        """The oldest heartbeat of this agent that is not acknowledged."""
        following = max(self.acknowledged + 1, self.first)
        if following < len(self.told):
            self.acknowledged = following
            await self.dead_man.renew(float(following), self.told[following])

    def start(self) -> None:
        granted = self.dead_man.granted
        spec = {"name": f"r{self._started}", "workload_id": "w", "deadline": granted and {"seconds": granted}}
        self._started += 1
        self._register.add(Replica(spec, []))

    def end(self) -> None:
        for replica in list(self._register)[:1]:
            replica.lines.append({"event": "gone"})

    def violations(self) -> list[str]:
        """Replicas that would outlive what the scheduler waits for, whichever heartbeat is the last that it hears."""
        held = [(r.spec["deadline"] or {}).get("seconds") for r in self._register if not r.gone]
        return [
            f"heartbeat {number} told {told}, a replica has {deadline}"
            for number, told in enumerate(self.told)
            if number >= self.acknowledged and told is not None
            for deadline in held
            if deadline is None or deadline > math.ceil(told)  # a heartbeat tells whole seconds
        ]


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["beat", "acknowledge", "start", "end", "restart"]),
        st.sampled_from([None, 5.0, 60.5, 840.0]),
    ),
    max_size=40,
)


def _held_to_what_was_told(folder: Path, steps: list[Any], kind: type[DeadMan] = DeadMan) -> list[str]:
    async def play() -> list[str]:
        cut = Cut(folder, kind)
        for step in steps:
            if step in {"start", "end", "restart"}:
                getattr(cut, step)()
            elif isinstance(step, str):
                await getattr(cut, step)()
            else:
                cut.declared = step
            found = cut.violations()
            if found:
                return found
        return []

    return asyncio.run(play())


@given(steps=STEPS)
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_replica_outlives_what_a_heartbeat_has_told(tmp_path: Path, steps: list[Any]) -> None:
    assert _held_to_what_was_told(tmp_path, steps) == []


GROWN = [60.5, "beat", "acknowledge", 840.0, "start"]
SHRUNK = [840.0, "beat", "acknowledge", "start", 60.5, "beat"]
TURNED_OFF = [60.5, "beat", "acknowledge", "restart", None, "start"]


@pytest.mark.parametrize("steps", [GROWN, SHRUNK, TURNED_OFF])
def test_by_the_cluster_file_alone_one_does(tmp_path: Path, steps: list[Any]) -> None:
    class Declared(DeadMan):
        """As it was: a replica gets, and a heartbeat tells, what the file says at that moment."""

        @property
        def granted(self) -> float | None:
            return self._declared()

        async def told(self) -> float | None:
            return self._declared()

    assert _held_to_what_was_told(tmp_path, steps) == []
    assert _held_to_what_was_told(tmp_path, steps, Declared)


async def test_nothing_starts_whose_deadline_is_over(tmp_path: Path) -> None:
    cut = Cut(tmp_path, DeadMan)
    assert cut.dead_man.objection(1e9) == "", "there is no deadline"
    cut.declared = 60.5
    assert "acknowledged no heartbeat; after 60.5 s" in cut.dead_man.objection(0.0)
    await cut.beat()
    await cut.acknowledge()
    assert cut.dead_man.objection(60.0) == ""
    assert "no heartbeat for 61 s" in cut.dead_man.objection(61.0)
    cut.restart()
    assert cut.dead_man.objection(60.0) == "", "a restarted agent reads it from the folder"
    (tmp_path / "alive.json").write_text(json.dumps({"boot": "another", "monotonic": 0.0}))
    cut.restart()
    assert "acknowledged no heartbeat" in cut.dead_man.objection(60.0), "another boot has another clock"
