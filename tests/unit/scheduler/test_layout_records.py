"""The record of a node on its cluster's topic, and what an agent answers to it: their form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.events import Event, Origin, Reject
from muster_chassis.topics import reports
from muster_chassis.unit import Unit
from muster_scheduler import stream
from muster_scheduler.adapters.outgoing import Publisher
from muster_scheduler.domain import events
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Mig
from tests.support.fleets import Fleet, node

STATIC = Profile(backend="kubernetes", anonymous=True, mig=Mig.STATIC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Outbox:
    """What a transaction would write."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, Any, Mapping[str, str]]] = []

    def publish(self, topic: Any, key: str, message: Any, headers: Mapping[str, str] | None = None) -> None:
        self.rows.append((topic.name, key, message, headers or {}))


def written(fleet: Fleet, *happenings: events.Event) -> list[tuple[str, str, Any, Mapping[str, str]]]:
    outbox = Outbox()
    fleet.state.begin(fleet.now)
    for happening in happenings:
        fleet.state.apply(happening)
    Publisher(7).publish(cast("Unit", outbox), fleet.state.plan(), fleet.world)
    fleet.state.commit()
    return outbox.rows


def test_the_record_of_a_node_and_its_tombstone() -> None:
    fleet = Fleet(node("a", 0), profile=STATIC)
    ((topic, key, wish, headers),) = written(fleet, events.NodeLayoutOrdered("c1", "a", "all-1g.10gb", "anna"))
    assert (topic, key, headers) == ("muster.clusters.c1.assignments", "node/a", {})
    assert (wish.node, wish.layout, wish.epoch, wish.agent_instance) == ("a", "all-1g.10gb", 7, "agent-c1")
    ((_, key, nothing, headers),) = written(fleet, events.NodeLayoutOrdered("c1", "a", ""))
    assert (key, nothing) == ("node/a", None)
    assert headers == {"epoch": "7", "revision": str(wish.revision), "reason": "TakenBack"}


def test_a_takeover_of_any_release_reads_its_epoch_as_that_of_an_assignment() -> None:
    wish = fleet_pb2.NodeWish(node="a", epoch=41, agent_instance="me", revision=1 << 50, layout="all-1g.10gb")
    assert fleet_pb2.Assignment.FromString(wish.SerializeToString()).epoch == 41


def event(message: Any) -> Event:
    message.order.MergeFrom(agent_pb2.ReportOrder(cluster="c1", instance="one", start=1, sequence=1))
    origin = Origin(reports("c1").name, 0, 1, b"c1", message.SerializeToString(), ())
    return Event("id", message.DESCRIPTOR.full_name, "agent/c1", "c1", 0, NOW, message, origin, None)


def test_answers_are_read() -> None:
    now = fleet_pb2.Node(name="a", slots=[fleet_pb2.SlotGroup(resource="nvidia.com/mig-1g.10gb", count=7)])
    done = stream.translate(event(agent_pb2.LayoutChanged(node="a", now=now, revision=5)))
    assert isinstance(done, events.LayoutReported)
    assert done.now is not None
    assert (done.cluster, done.node, done.revision, done.failure) == ("c1", "a", 5, "")
    assert [(group.resource, group.units) for group in done.now.groups] == [("nvidia.com/mig-1g.10gb", 7)]
    assert done.now.most_replicas == UNBOUNDED
    now.most_replicas = 0
    full = stream.translate(event(agent_pb2.LayoutChanged(node="a", now=now, revision=5)))
    assert isinstance(full, events.LayoutReported)
    assert full.now is not None
    assert full.now.most_replicas == 0
    why = workload_pb2.Reason(code="LayoutFailed", message="no")
    failed = stream.translate(event(agent_pb2.LayoutFailed(node="a", reason=why, revision=5)))
    assert isinstance(failed, events.LayoutReported)
    assert (failed.now, failed.failure, failed.revision) == (None, "no", 5)


@pytest.mark.parametrize("now", [None, fleet_pb2.Node(name="b")])
def test_an_answer_that_does_not_say_how_the_node_is_is_refused(now: fleet_pb2.Node | None) -> None:
    with pytest.raises(Reject, match="the answer for node 'a'"):
        stream.translate(event(agent_pb2.LayoutChanged(node="a", now=now, revision=5)))


def test_a_failure_without_a_reason_has_one() -> None:
    failed = stream.translate(event(agent_pb2.LayoutFailed(node="a", revision=5)))
    assert isinstance(failed, events.LayoutReported)
    assert failed.failure
