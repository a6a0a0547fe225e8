"""Whatever is created and ends, the agent never puts more on a device than the device has, and refuses nothing else."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.holdings import Holding, device_conflict
from muster_cluster_agent.domain.model import Share, Slice
from muster_kernel.mig import CARDS, overlap_free

MEMORY = 40 << 30
CARD = CARDS["A100-40GB"]
DEVICES = {f"GPU-{slot}": Device(f"GPU-{slot}", CARD.model, MEMORY, slot) for slot in range(2)}
SLICES = [
    Slice(name, start)
    for name, profile in CARD.profiles.items()
    if not name.endswith("+me")
    for start in profile.starts
]


@st.composite
def shares(draw: st.DrawFn) -> Share:
    device = draw(st.sampled_from(sorted(DEVICES)))
    kind = draw(st.sampled_from(["whole", "portion", "memory", "slice"]))
    if kind == "portion":
        return Share(device, portion_milli=10 * draw(st.integers(1, 99)))
    if kind == "memory":
        return Share(device, memory_bytes=draw(st.integers(1, 40)) << 30)
    if kind == "slice":
        return Share(device, slice=draw(st.sampled_from(SLICES)))
    return Share(device, whole=True)


def possible(held: list[Share]) -> bool:
    """Whether one device can have these shares, counted in another way: by kinds, then each amount by itself."""
    kinds = {"slice" if s.slice else "whole" if s.whole else "shared" for s in held}
    if len(kinds) != 1:
        return not kinds
    if kinds == {"whole"}:
        return len(held) == 1
    if kinds == {"slice"}:
        cuts = [s.slice for s in held if s.slice is not None]
        taken = [slot for c in cuts for slot in range(c.start, c.start + CARD.profiles[c.profile].memory)]
        return len(taken) == len(set(taken))
    of_portions = sum(s.portion_milli * MEMORY // 1000 for s in held)
    return sum(s.portion_milli for s in held) <= 1000 and of_portions + sum(s.memory_bytes for s in held) <= MEMORY


@given(st.lists(st.tuples(shares(), st.booleans()), max_size=25))
def test_a_replica_is_refused_exactly_where_its_device_has_no_room(steps: list[tuple[Share, bool]]) -> None:
    held: list[Holding] = []
    for number, (wanted, one_ends) in enumerate(steps):
        if one_ends and held:
            held.pop(number % len(held))
        there = [holding.share for holding in held if holding.share.device == wanted.device]
        said = device_conflict([wanted], held, DEVICES)
        assert bool(said) == (bool(there) and not possible([*there, wanted]))
        assert device_conflict([wanted], reversed(held), DEVICES) == said
        if not said:
            held.append(Holding(f"r-{number}", wanted))
        for device in DEVICES:
            assert possible([holding.share for holding in held if holding.share.device == device])


@given(st.lists(st.sampled_from(SLICES), max_size=7, unique=True))
def test_what_the_tables_of_mig_allow_is_not_refused(cuts: list[Slice]) -> None:
    if not overlap_free(CARD, [(cut.profile, cut.start) for cut in cuts]):
        return
    held: list[Holding] = []
    for number, cut in enumerate(cuts):
        wanted = Share("GPU-0", slice=cut)
        assert device_conflict([wanted], held, DEVICES) == ""
        held.append(Holding(f"r-{number}", wanted))
