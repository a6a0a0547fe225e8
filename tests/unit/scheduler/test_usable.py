"""Masks of nodes say what is said of each node alone, and what is remembered is never another's."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.asked.terms import Toleration
from muster_scheduler.domain.fleet.eligibility import Eligibility, excluded, reluctant
from muster_scheduler.domain.fleet.nodes import Node, NodeState
from muster_scheduler.domain.fleet.usable import Usable
from tests.support.fleets import devices, node

NOW = 1_000_000
_TYPES = st.one_of(st.none(), st.frozensets(st.sampled_from(["dgx", "A100-80GB", "H100-80GB"]), max_size=2))
_ELIGIBILITY = st.builds(
    Eligibility,
    types=_TYPES,
    tolerations=st.sampled_from([(), (Toleration("k", exists=True),)]),
    runs=st.sampled_from([None, 10, 10**9]),
    avoided=st.frozensets(st.sampled_from([("c1", "n0"), ("c1", "n3"), ("c1", "gone")]), max_size=2),
    closed=st.frozensets(st.sampled_from(["A100-80GB", "H100-80GB"]), max_size=1),
)


@st.composite
def _nodes(draw: st.DrawFn) -> list[Node]:
    made = []
    for number in range(draw(st.integers(1, 5))):
        cards = devices(f"n{number}", 1, model=draw(st.sampled_from(["A100-80GB", "H100-80GB"])))
        each = node(f"n{number}", cards=cards, state=draw(st.sampled_from(list(NodeState))))
        each.labels = draw(st.sampled_from([(), (("run.ai/type", "dgx"),)]))
        each.taints = draw(st.sampled_from([(), (("k", "v", "NoSchedule"),), (("k", "v", "PreferNoSchedule"),)]))
        each.drain_deadline = draw(st.sampled_from([0, NOW + 100]))
        each.windows = draw(st.sampled_from([(), ((NOW + 50, NOW + 90),), ((NOW - 5, NOW + 5),)]))
        made.append(each)
    return made


@given(_nodes(), st.lists(_ELIGIBILITY, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_a_mask_says_what_is_said_of_each_node(nodes: list[Node], asked: list[Eligibility]) -> None:
    usable = Usable(nodes)
    for each in [*asked, *asked]:
        assert usable.mask(each, NOW).tolist() == [excluded(each, one, NOW) is None for one in nodes]
        assert usable.reluctant(each) == [n for n, one in enumerate(nodes) if reluctant(each, one)]


def test_what_is_remembered_is_bounded_and_right() -> None:
    rack = node("n0")
    rack.labels = (("rack", "r1"),)
    usable = Usable([rack, node("n1")])
    for number in range(200):
        assert usable.topology((f"key-{number}",)).size(0) == 0
        assert usable.mask(Eligibility(frozenset({f"type-{number}"})), NOW).tolist() == [False, False]
    assert usable.topology(("rack",)) is usable.topology(("rack",))
    assert usable.topology(("rack",)).domain.tolist() == [[0, -1]]
    assert usable.topology(("kubernetes.io/hostname",)).domain.tolist() == [[0, 1]]
