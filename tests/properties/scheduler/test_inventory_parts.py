"""Whatever parts of inventories come, in whatever order: the nodes are those of one whole inventory, never a mix."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain import events
from muster_scheduler.domain.state import State
from tests.support.fleets import START
from tests.support.snapshots import Reporting

NAMES = ("n1", "n2", "n3", "n4", "n5")
SETS = st.sets(st.sampled_from(NAMES), min_size=2)
FLEETS = st.lists(SETS, min_size=1, max_size=5)


def names(state: State) -> frozenset[str]:
    return frozenset(name for (_, name), node in state.world.inventory.nodes.items() if node.present)


def send(state: State, *incoming: events.Event, fails: bool = False) -> None:
    state.begin(START)
    for event in incoming:
        state.apply(event)
    state.propose()
    if fails:
        state.abort()
    else:
        state.commit()
        state.check()


@settings(max_examples=60, deadline=None)
@given(FLEETS, st.data())
def test_nodes_are_always_those_of_one_whole_inventory(fleets: list[set[str]], data: st.DataObject) -> None:
    state, agent = State(), Reporting()
    send(state, events.ClusterRegistered("c1"))
    parts = [part for fleet in fleets for part in agent.full(*sorted(fleet))]
    told = {frozenset[str](), *map(frozenset, fleets)}
    indices = st.lists(st.integers(0, len(parts) - 1), max_size=20)
    for index in data.draw(indices, label="the parts that come"):
        send(state, parts[index], fails=data.draw(st.booleans(), label="the transaction fails"))
        assert names(state) in told
    send(state, *agent.full("n1", "n5"))
    assert names(state) == {"n1", "n5"}


@settings(max_examples=60, deadline=None)
@given(FLEETS, st.data())
def test_the_last_inventory_of_which_every_part_came_counts(fleets: list[set[str]], data: st.DataObject) -> None:
    state, agent = State(), Reporting()
    send(state, events.ClusterRegistered("c1"))
    counts: frozenset[str] = frozenset()
    for fleet in fleets:
        parts = agent.full(*sorted(fleet))
        coming = data.draw(st.permutations(parts), label="their order")
        lost = data.draw(st.integers(0, 2), label="how many are lost")
        again = data.draw(st.lists(st.sampled_from(parts), max_size=2), label="those that come twice")
        arriving = coming[lost:]
        send(state, *arriving, *(part for part in again if part in arriving))
        if not lost:
            counts = frozenset(fleet)
        assert names(state) == counts
