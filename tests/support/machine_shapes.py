"""What the state machine of the scheduler draws from: shapes, roles, places and the fleet that it begins with."""

from __future__ import annotations

from hypothesis import strategies as st

from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.terms import ANYWHERE, HOST_LABEL, Apart, Label, Terms, Wish
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.fleet.nodes import Node
from tests.support.fleets import GIB, device_memory, devices, host, mig_slice, node, portion, role, whole

SHAPES = st.sampled_from(
    [
        whole(1),
        whole(2),
        whole(4),
        portion(300),
        portion(500),
        portion(200, 2),
        device_memory(30 * GIB),
        mig_slice("1g.10gb"),
        mig_slice("3g.40gb"),
        host(),
    ]
)
ROLES: st.SearchStrategy[tuple[Role, ...]] = st.lists(st.tuples(SHAPES, st.integers(1, 3)), min_size=1, max_size=2).map(
    lambda parts: tuple(role(shape, size, f"r{n}") for n, (shape, size) in enumerate(parts))
)
WISHES = (
    Wish(),
    Wish(required="rack"),
    Wish("block", "rack"),
    Wish(group="rack", group_size=2),
    Wish(apart=Apart(HOST_LABEL, required=True)),
    Wish(apart=Apart("rack", required=True)),
    Wish(apart=Apart("rack", required=False)),
)
CHOICES = (
    ANYWHERE,
    Terms(data=Label("data", "x")),
    Terms(preferred_clusters=("c2",)),
    Terms(preferred_clusters=("c2", "c1")),
    Terms(preferred_clusters=("nowhere",), data=Label("data")),
)
"""Which clusters are tried first. The data is in the second, if anywhere."""
PLACES: st.SearchStrategy[tuple[tuple[str, ...], Terms]] = st.sampled_from(
    [
        (pools, choice._replace(topology=wish))
        for pools in (("default",), ("other", "default"), ("other",))
        for wish in WISHES
        for choice in CHOICES
    ]
)
CROWD = st.lists(
    st.tuples(ROLES, st.sampled_from([25, 50, 75]), st.booleans(), st.sampled_from("pq"), st.sampled_from(CHOICES)),
    max_size=8,
)
GANG = st.none() | st.tuples(SHAPES, st.integers(1, 3), st.integers(1, 3), st.booleans())  # at least, and so many more
NUMBERS = st.integers(1, 12)
LIMITS = Limits(usage_weight=1000, usage_half_life=400 * SECOND)


def first(healthy: bool = True) -> Node:
    """The node of four cards in the first rack; its first card may be broken."""
    cards = devices("c1-n1", 4)
    cards[0].healthy = healthy
    return _at("r1", node("n1", cards=cards))


def second() -> Node:
    """The node of the second rack: two cards, and two that are cut into slices."""
    return _at("r2", node("n2", cards=[*devices("c1-n2", 2), *devices("c1-n2m", 2, mig=True)]))


def others(*, data: bool = True) -> list[Node]:
    """The nodes of the other cluster: one of four cards, one of three that have no names, with the data or without."""
    unnamed = node("m2", 0, cluster="c2", slots=3)
    unnamed.labels = (("data", "x"),) if data else ()
    return [node("m1", 4, cluster="c2", pool="other"), unnamed]


def _at(rack: str, made: Node) -> Node:
    made.labels = (("block", "b"), ("rack", rack))
    return made


MOUNTED = ((), (), ("runai-p/claims/data",))
"""What a workload mounts that has to be in its cluster already."""
