"""MIG layouts that the scheduler wants: records that come twice, late or of another leader, and lost answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.events.v1 import agent_pb2
from muster_cluster_agent.adapters import decode, encode
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.domain.fleet import Node, NodeState
from muster_cluster_agent.domain.kubernetes.layouts import CONFIG, STATE, Progress, progress
from muster_cluster_agent.domain.layouts import LayoutAnswer, NodeWish, WishEnd
from muster_cluster_agent.errors import BadRecord
from muster_cluster_agent.handlers.agent import Agent, Taken
from muster_cluster_agent.handlers.layouts import PATIENCE_SECONDS, Layouts
from muster_cluster_agent.ports import LayoutReport
from tests.support.agent_loops import Told
from tests.support.backends import FakeBackend

NOW = LayoutAnswer(Node("n-0", "uid", "boot", NodeState.READY, 8000, 32 << 30))


def wish(revision: int = 1, *, epoch: int = 1, layout: str = "all-1g.10gb", instance: str = "me") -> NodeWish:
    return NodeWish("n-0", epoch, revision, instance, layout)


def end(revision: int = 1, *, epoch: int = 1) -> WishEnd:
    return WishEnd("n-0", epoch, revision)


class Scene:
    """Layouts on a back end in memory, with a clock of the test."""

    def __init__(self) -> None:
        self.backend, self.told, self.now = FakeBackend(), Told(), 0.0
        self.layouts = Layouts(self.backend, self.told, clock=lambda: self.now)
        self.layouts.held_up = False

    def answers(self) -> list[LayoutReport]:
        return [report for report in self.told.reports if isinstance(report, LayoutReport)]


async def test_an_answer_is_told_once_and_again_after_a_resync_until_the_tombstone() -> None:
    scene = Scene()
    scene.layouts.take(wish())
    await scene.layouts.look()
    assert scene.answers() == []
    scene.backend.layouts["n-0", "all-1g.10gb"] = NOW
    await scene.layouts.look()
    await scene.layouts.look()
    assert scene.answers() == [LayoutReport("n-0", 1, NOW)]
    scene.layouts.tell_again()
    await scene.layouts.look()
    assert scene.answers() == [LayoutReport("n-0", 1, NOW)] * 2
    scene.layouts.take(end())
    scene.layouts.tell_again()
    await scene.layouts.look()
    assert len(scene.answers()) == 2


async def test_after_ten_minutes_it_has_failed() -> None:
    scene = Scene()
    scene.layouts.take(wish())
    scene.now = PATIENCE_SECONDS
    await scene.layouts.look()
    assert scene.answers() == []
    scene.layouts.take(wish(epoch=2))  # another leader says the same: the time goes on
    scene.now += 1
    await scene.layouts.look()
    (report,) = scene.answers()
    assert report.answer.node is None
    assert "within 600 s" in report.answer.failure


async def test_a_failure_is_final_also_for_another_leader() -> None:
    scene = Scene()
    failed = scene.backend.layouts["n-0", "all-1g.10gb"] = LayoutAnswer(None, "another tenant is there")
    scene.layouts.take(wish())
    await scene.layouts.look()
    scene.backend.layouts["n-0", "all-1g.10gb"] = NOW
    scene.layouts.tell_again()
    scene.layouts.take(wish(epoch=2))
    await scene.layouts.look()
    assert scene.answers() == [LayoutReport("n-0", 1, failed)] * 3
    assert len(scene.backend.asked_layouts) == 1


async def test_nothing_is_done_before_the_records_are_read_to_their_end() -> None:
    scene = Scene()
    scene.layouts.held_up = True
    scene.layouts.take(wish())
    await scene.layouts.look()
    assert scene.backend.asked_layouts == []
    scene.layouts.held_up = False
    await scene.layouts.look()
    assert scene.backend.asked_layouts == [("n-0", "all-1g.10gb")]


async def test_an_answer_to_a_record_that_was_replaced_meanwhile_is_not_told() -> None:
    class Late(FakeBackend):
        async def lay_out(self, node: str, config: str) -> LayoutAnswer | None:
            scene.layouts.take(end())
            return NOW

    scene = Scene()
    scene.layouts = Layouts(Late(), scene.told)
    scene.layouts.held_up = False
    scene.layouts.take(wish())
    await scene.layouts.look()
    assert scene.answers() == []


Record = tuple[bool, int, int]  # whether it is a tombstone, epoch, revision


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.integers(1, 3)), max_size=12))
def test_what_counts_is_the_highest_record_in_whatever_order_they_come(records: Sequence[Record]) -> None:
    scene = Scene()
    for is_end, epoch, revision in records:
        scene.layouts.take(end(revision, epoch=epoch) if is_end else wish(revision, epoch=epoch))
    ranked = [((epoch, revision), is_end) for is_end, epoch, revision in records]
    last = max(ranked, default=((0, 0), True))  # of one rank the tombstone counts
    found = [wanted.wish.rank for wanted in scene.layouts._wanted.values()]
    assert found == ([] if last[1] else [last[0]])


def test_the_agent_obeys_the_highest_epoch_and_its_own_instance_alone() -> None:
    agent = Agent(FakeBackend(), Told(), "me", epoch=5)
    assert agent.take_wish(wish(epoch=4)) is Taken.REFUSED
    assert agent.take_wish(wish(epoch=6, instance="another")) is Taken.REFUSED
    assert agent.epoch == 6
    assert agent.take_wish(wish(2, epoch=6)) is Taken.TAKEN
    assert agent.take_wish(wish(1, epoch=6)) is Taken.STALE
    assert agent.take_wish(end(2, epoch=6)) is Taken.TAKEN
    assert agent.take_wish(wish(2, epoch=6)) is Taken.STALE


async def test_an_agent_on_one_machine_has_no_layouts() -> None:
    answer = await LocalBackend.lay_out(None, "n-0", "all-1g.10gb")  # type: ignore[arg-type]  # reads nothing of it
    assert answer is not None
    assert "no mig-manager" in answer.failure


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, Progress.UNASKED),
        ({CONFIG: "b", STATE: "success"}, Progress.UNASKED),
        ({CONFIG: "a"}, Progress.WORKING),
        ({CONFIG: "a", STATE: "pending"}, Progress.WORKING),
        ({CONFIG: "a", STATE: "rebooting"}, Progress.WORKING),
        ({CONFIG: "a", STATE: "success"}, Progress.DONE),
        ({CONFIG: "a", STATE: "failed"}, Progress.FAILED),
    ],
)
def test_what_the_labels_say(labels: dict[str, str], expected: Progress) -> None:
    assert progress(labels, "a") is expected


def test_the_answer_names_the_record_and_the_node() -> None:
    order = agent_pb2.ReportOrder(cluster="c", sequence=3)
    done = encode.message(LayoutReport("n-0", 7, NOW), order, "id")
    assert isinstance(done, agent_pb2.LayoutChanged)
    assert (done.node, done.revision, done.now.cpu_milli, done.order.sequence) == ("n-0", 7, 8000, 3)
    failed = encode.message(LayoutReport("n-0", 7, LayoutAnswer(None, "no")), order, "id")
    assert isinstance(failed, agent_pb2.LayoutFailed)
    assert (failed.node, failed.revision, failed.reason.message) == ("n-0", 7, "no")


@pytest.mark.parametrize("value", [b"\xff", b""])
def test_a_record_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord):
        decode.node_wish("n-0", value)


def test_a_tombstone_needs_its_numbers() -> None:
    assert decode.wish_end("n-0", {"epoch": b"3", "revision": b"8"}) == WishEnd("n-0", 3, 8)
    with pytest.raises(BadRecord, match="epoch and revision"):
        decode.wish_end("n-0", {"epoch": b"3"})
