"""A change of a node's MIG layout: closed, empty, told to the agent, answered; and what comes in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_chassis.errors import InvalidArgument
from muster_kernel.lifecycle import Phase
from muster_scheduler.adapters import rows, views
from muster_scheduler.commands import layable
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.decisions import Decision, EndWish, Wish
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.layouts import is_config
from muster_scheduler.domain.fleet.nodes import Mig, Node, SlotGroup
from muster_scheduler.domain.life import layouts
from muster_scheduler.errors import LayoutRefused, UnknownNode
from tests.support.fleets import Fleet, node, request, role, whole

WHOLE = "nvidia.com/gpu"
SLICES = "nvidia.com/mig-1g.10gb"
CAPABLE = (("nvidia.com/mig.capable", "true"),)
STATIC = Profile(backend="kubernetes", anonymous=True, mig=Mig.STATIC)


def mig_node(name: str = "a", *groups: SlotGroup, labels: tuple[tuple[str, str], ...] = CAPABLE) -> Node:
    """A node whose cluster counts its devices and has a mig-manager: two whole ones unless others are said."""
    found = groups or (SlotGroup(WHOLE, "", "H100-80GB", 80 << 30, 2, 0),)
    return replace(node(name, 0), groups=found, labels=labels)


def sliced(name: str = "a", foreign: int = 0) -> Node:
    return mig_node(name, SlotGroup(SLICES, "1g.10gb", "H100-80GB", 80 << 30, 7, foreign))


def fleet_of(*nodes: Node) -> Fleet:
    return Fleet(*(nodes or (mig_node(),)), profile=STATIC)


def report(fleet: Fleet, *nodes: Node) -> list[Decision]:
    return fleet.inventory("c1", nodes, profile=STATIC)


def order(fleet: Fleet, config: str = "all-1g.10gb", name: str = "a") -> list[Decision]:
    layable(fleet.state, "c1", name, config)
    return fleet.send(events.NodeLayoutOrdered("c1", name, config, "anna"))


def answer(fleet: Fleet, revision: int, now: Node | None, failure: str = "", name: str = "a") -> list[Decision]:
    return fleet.send(events.LayoutReported("c1", fleet.order("c1"), name, revision, now, failure))


def told(decisions: list[Decision]) -> list[Wish | EndWish]:
    return [each for each in decisions if isinstance(each, Wish | EndWish)]


def there(fleet: Fleet, name: str = "a") -> Node:
    found: Node = fleet.world.inventory.nodes["c1", name]
    return found


def test_an_empty_node_is_told_at_once_and_opens_with_its_new_devices() -> None:
    fleet = fleet_of()
    (wish,) = told(order(fleet))
    assert isinstance(wish, Wish)
    assert (wish.cluster, wish.node, wish.config) == ("c1", "a", "all-1g.10gb")
    fleet.submit(1, request(role(whole())))
    assert fleet.workload(1).phase is Phase.PENDING, "nothing is placed while the layout changes"
    assert told(answer(fleet, wish.revision, sliced())) == [EndWish("c1", "a", wish.revision, layouts.ANSWERED)]
    assert there(fleet).open
    assert there(fleet).groups == sliced().groups
    assert fleet.workload(1).phase is Phase.PENDING, "it has no whole device any more"
    fleet.state.check()


def test_the_agent_is_told_only_when_nothing_of_ours_is_left() -> None:
    fleet = fleet_of()
    fleet.submit(1, request(role(whole())))
    fleet.submit(2, request(role(whole())))
    fleet.run(1)
    fleet.run(2)
    assert told(order(fleet)) == []
    assert not there(fleet).open
    assert told(fleet.gone(1)) == []
    (wish,) = told(fleet.gone(2))
    assert isinstance(wish, Wish)


def test_a_change_that_failed_opens_the_node_and_says_why() -> None:
    fleet = fleet_of()
    (wish,) = told(order(fleet))
    assert isinstance(told(answer(fleet, wish.revision, None, "it said failed"))[0], EndWish)
    view = views.node(fleet.world, there(fleet))
    assert not view.HasField("layout")
    assert view.layout_failure == "it said failed"
    assert there(fleet).open
    order(fleet, "all-2g.20gb")
    assert there(fleet).layout_failure == "", "another change begins anew"


def test_answers_that_come_twice_or_to_an_earlier_change_end_nothing() -> None:
    fleet = fleet_of()
    (first,) = told(order(fleet))
    answer(fleet, first.revision, None, "no")
    again = told(answer(fleet, first.revision, None, "no"))
    assert again == [EndWish("c1", "a", first.revision, layouts.ANSWERED)], "a record that must not stay is ended"
    assert told(answer(fleet, 1, None, "no", name="never")) == [], "no record is written of a node that is not there"
    fleet.wait(1)
    (second,) = told(order(fleet))
    assert second.revision > first.revision
    assert told(answer(fleet, first.revision, sliced())) == []
    assert there(fleet).layout is not None
    assert there(fleet).groups == mig_node().groups


def test_a_report_of_the_node_does_not_open_it() -> None:
    fleet = fleet_of()
    order(fleet)
    report(fleet, sliced())
    assert there(fleet).layout is not None
    assert not there(fleet).open
    fleet.state.check()


def test_a_node_that_is_deleted_ends_its_change() -> None:
    fleet = fleet_of(mig_node(), mig_node("b"))
    (wish,) = told(order(fleet))
    assert told(report(fleet, mig_node("b"))) == [EndWish("c1", "a", wish.revision, layouts.NODE_GONE)]
    report(fleet, mig_node(), mig_node("b"))
    assert there(fleet).open
    fleet.state.check()


def test_a_cluster_that_leaves_ends_its_changes() -> None:
    fleet = fleet_of()
    (wish,) = told(order(fleet))
    assert told(fleet.send(events.ClusterLeft("c1"))) == [EndWish("c1", "a", wish.revision, layouts.NODE_GONE)]
    assert not fleet.world.inventory.changing


def test_a_change_is_taken_back_before_and_after_the_agent_was_told() -> None:
    fleet = fleet_of()
    fleet.submit(1, request(role(whole())))
    fleet.run(1)
    order(fleet)
    assert told(order(fleet, "")) == [], "the agent knows nothing of it"
    assert there(fleet).open
    fleet.finish(1)
    fleet.wait(1)
    (wish,) = told(order(fleet))
    assert told(order(fleet, "")) == [EndWish("c1", "a", wish.revision, layouts.TAKEN_BACK)]
    assert there(fleet).open


def test_others_that_come_while_it_waits_make_it_fail() -> None:
    fleet = fleet_of()
    fleet.submit(1, request(role(whole())))
    fleet.run(1)
    order(fleet)
    held = mig_node("a", SlotGroup(WHOLE, "", "H100-80GB", 80 << 30, 2, 1))
    report(fleet, held)
    assert told(fleet.gone(1)) == []
    assert "another tenant" in there(fleet).layout_failure
    assert there(fleet).open


def test_a_new_term_and_another_instance_are_told_again() -> None:
    fleet = fleet_of()
    (wish,) = told(order(fleet))
    fleet.state.begin(fleet.world.now)
    layouts.tell_again(fleet.world)
    assert told(list(fleet.state.plan().decisions)) == [wish]
    fleet.state.commit()
    assert told(fleet.send(events.ClusterAdopted("c1", "agent-9"))) == [wish]


def test_a_change_survives_a_restart() -> None:
    fleet = fleet_of()
    order(fleet)
    kept = rows.to_node("c1", "a", rows.of_node(there(fleet)))
    assert kept.layout == there(fleet).layout
    assert not kept.open
    other = Fleet()
    other.world.inventory.put_nodes([kept])
    assert set(other.world.inventory.changing) == {("c1", "a")}


def test_an_abort_takes_all_of_it_back() -> None:
    fleet = fleet_of()
    before = fleet.state.digest()
    fleet.state.begin(fleet.world.now)
    fleet.state.apply(events.NodeLayoutOrdered("c1", "a", "all-1g.10gb", "anna"))
    assert fleet.state.plan().touched.nodes
    fleet.state.abort()
    assert fleet.state.digest() == before
    assert there(fleet).open
    fleet.state.check()


def test_why_names_the_layout() -> None:
    fleet = fleet_of()
    order(fleet)
    fleet.submit(1, request(role(whole())))
    told = explain(fleet.world, fleet.workload(1))
    assert "gets another MIG layout" in repr(told)
    assert told.reason is not None
    assert "has to be empty" in told.reason.sentence()


def test_an_order_of_an_operator_stays_under_the_change() -> None:
    fleet = fleet_of()
    fleet.submit(1, request(role(whole())))
    fleet.run(1)
    order(fleet)
    view = views.node(fleet.world, there(fleet))
    assert (view.layout.config, view.layout.by, view.layout.applying) == ("all-1g.10gb", "anna", False)
    assert view.layout.at.ToMicroseconds() == fleet.world.now


@pytest.mark.parametrize(
    ("found", "profile", "config", "said"),
    [
        (mig_node(labels=()), STATIC, "all-1g.10gb", "has no MIG"),
        (mig_node(), STATIC._replace(mig=Mig.DYNAMIC), "all-1g.10gb", "no layout that an operator sets"),
        (sliced(foreign=1), STATIC, "all-1g.10gb", "another tenant of cluster c1 holds a device"),
        (mig_node(), STATIC, "", "nothing to take back"),
    ],
)
def test_what_cannot_be_changed_is_refused(found: Node, profile: Profile, config: str, said: str) -> None:
    fleet = fleet_of(found)
    fleet.inventory("c1", [found], profile=profile)
    with pytest.raises(LayoutRefused, match=said):
        layable(fleet.state, "c1", "a", config)


def test_a_second_change_and_an_unknown_node_are_refused() -> None:
    fleet = fleet_of()
    order(fleet)
    with pytest.raises(LayoutRefused, match="already, ordered by anna"):
        layable(fleet.state, "c1", "a", "all-2g.20gb")
    with pytest.raises(UnknownNode):
        layable(fleet.state, "c1", "z", "all-1g.10gb")
    with pytest.raises(InvalidArgument, match="cannot be the name of a configuration"):
        layable(fleet.state, "c1", "a", "no such/name")


@given(st.text(min_size=1, max_size=70))
def test_a_configuration_is_a_label_value(text: str) -> None:
    plain = all(letter.isascii() and (letter.isalnum() or letter in "-_.") for letter in text)
    ends = text[0].isalnum() and text[-1].isalnum()
    assert is_config(text) == (plain and ends and len(text) <= 63)


STEPS = ("order", "cancel", "done", "failed", "old", "vanish", "back", "work", "end")


def step(fleet: Fleet, name: str, number: int) -> list[Decision]:
    """One thing that may happen; number: of the workloads that were submitted before."""
    known = fleet.world.inventory.nodes.get(("c1", "a"))
    revision = known.layout.revision if known is not None and known.layout is not None else 1
    if name == "end":
        alive = [each for each in range(number) if fleet.workload(each).replicas]
        return [decision for each in alive for decision in fleet.gone(each)]
    happening: events.Event
    match name:
        case "order" | "cancel":
            happening = events.NodeLayoutOrdered("c1", "a", "x" if name == "order" else "", "anna")
        case "done":
            happening = events.LayoutReported("c1", fleet.order("c1"), "a", revision, mig_node())
        case "failed" | "old":
            answered = revision - (name == "old")
            happening = events.LayoutReported("c1", fleet.order("c1"), "a", answered, None, "no")
        case "work":
            happening = fleet.admitted(number, request(role(whole(2))))
        case _:
            nodes = [mig_node("b")] if name == "vanish" else [mig_node(), mig_node("b")]
            return report(fleet, *nodes)
    return fleet.send(happening)


@given(st.lists(st.sampled_from(STEPS), max_size=14))
def test_each_record_that_was_written_is_ended_and_none_is_written_over_work(steps: list[str]) -> None:
    """The last record of the node's key asks for a layout exactly while the books have such a change."""
    fleet = fleet_of(mig_node(), mig_node("b"))
    last: Wish | EndWish | None = None
    for place, name in enumerate(steps):
        fleet.wait(1)
        last = ([last, *told(step(fleet, name, steps[:place].count("work")))])[-1]
        held = fleet.world.inventory.nodes.get(("c1", "a"))
        applying = held is not None and held.layout is not None and held.layout.applying
        assert isinstance(last, Wish) == applying
        assert not applying or not held.entries
        fleet.state.check()
