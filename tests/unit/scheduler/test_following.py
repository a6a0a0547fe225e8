"""A standby's state: brought up to date by the keys of what was written, it is the state that the tables say.

The state machine does this between any two of its steps; here are the cases by name, and what happens without a part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from muster_scheduler.adapters import following
from muster_scheduler.adapters.following import Follower, Overtaken
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.fleet.clusters import Profile
from tests.support.checked_fleet import Checked
from tests.support.fleets import host, node, request, role, whole, workload_id
from tests.support.machine_shapes import LIMITS, first, others, second
from tests.support.machine_surroundings import DYNAMIC


def _fleet() -> Checked:
    fleet = Checked(first(), second(), *others(), profile=DYNAMIC, quota=6)
    fleet.submit(1, request(role(whole(2), 2)))
    fleet.run(1)
    fleet.stand_by(lead=False)
    return fleet


def _more_is_placed(fleet: Checked) -> None:
    fleet.submit(2, request(role(whole(1))))
    fleet.submit(3, request(role(host())))


def _one_waits_for_another(fleet: Checked) -> None:
    fleet.submit(4, request(role(whole(4), 2), priority=75, preemptible=False))


def _one_ends(fleet: Checked) -> None:
    fleet.send(events.DeletionRequested("e", workload_id(1)))
    fleet.gone(1)


def _a_node_vanishes_and_one_comes(fleet: Checked) -> None:
    fleet.inventory("c2", [node("m9", 2, cluster="c2")], profile=DYNAMIC)


def _a_queue_changes(fleet: Checked) -> None:
    fleet.project("q", {"default": 2}, department="e")
    fleet.department("e", {"default": 3})
    fleet.send(events.DepartmentRemoved("d"))


def _a_pool_gets_nodes_by_label(fleet: Checked) -> None:
    fleet.send(events.NodePoolChanged(NodePool(3, "c1", "lab", 0, label_key="rack", label_value="r2")))


def _a_cluster_can_do_less(fleet: Checked) -> None:
    fleet.inventory("c1", [first(), second()], profile=Profile(portions=False))


CHANGES = (
    _more_is_placed,
    _one_waits_for_another,
    _one_ends,
    _a_node_vanishes_and_one_comes,
    _a_queue_changes,
    _a_pool_gets_nodes_by_label,
    _a_cluster_can_do_less,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_a_standby_knows_what_was_written(change: Callable[[Checked], None]) -> None:
    fleet = _fleet()
    change(fleet)
    fleet.stand_by(lead=False)  # compares the digests
    fleet.wait(31)
    fleet.stand_by(lead=True)
    fleet.wait(31)
    fleet.submit(9, request(role(whole(1))))


@pytest.mark.parametrize("part", ["take_out", "_replace_settings", "_replace_fleet"])
def test_without_a_part_it_knows_something_else(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None:
        """Replaces nothing."""

    monkeypatch.setattr(following, part, nothing)
    differing = 0
    for change in CHANGES:
        fleet = _fleet()
        change(fleet)
        try:
            fleet.stand_by(lead=False)
        except (AssertionError, KeyError):
            differing += 1
    assert differing


def test_who_is_set_aside_is_known_to_be() -> None:
    fleet = _fleet()
    fleet.submit(2, request(role(whole(4), 3)))
    fleet.state.begin(fleet.now)
    fleet.state.set_aside(Quarantined(workload_id(2), "broken", "", fleet.now))
    fleet._write()
    fleet._commit()
    assert fleet.standby is not None
    asyncio.run(fleet.standby.advance(fleet.tables, fleet.now))  # type: ignore[arg-type]
    standby = fleet.standby.state
    assert standby.digest() == fleet.state.digest()
    assert set(standby.world.quarantined) == {workload_id(2)}
    assert workload_id(2) not in standby.world.waiting


def test_a_standby_that_missed_changes_says_so() -> None:
    fleet = _fleet()
    _more_is_placed(fleet)
    behind = asyncio.run(Follower.read(fleet.tables, LIMITS, fleet.now))  # type: ignore[arg-type]
    behind._seq = -1
    with pytest.raises(Overtaken, match="the change -1 is there no more"):
        asyncio.run(behind.advance(fleet.tables, fleet.now))  # type: ignore[arg-type]
