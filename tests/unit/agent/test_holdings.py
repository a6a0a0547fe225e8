"""Which shares of devices a replica may have in addition to what other replicas hold."""

from __future__ import annotations

import pytest

from muster_cluster_agent.domain.environment import described
from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.holdings import Holding, device_conflict
from muster_cluster_agent.domain.launch import share_of
from muster_cluster_agent.domain.model import Share, Slice

GIB = 1 << 30
CARD = "GPU-1"
DEVICES = {CARD: Device(CARD, "A100-40GB", 40 * GIB, 0)}
WHOLE = Share(CARD, whole=True)
SMALL = Share(CARD, slice=Slice("1g.5gb", 0, "MIG-a"))


def portion(milli: int) -> Share:
    return Share(CARD, portion_milli=milli)


def memory(gib: int) -> Share:
    return Share(CARD, memory_bytes=gib * GIB)


def cut(profile: str, start: int, uuid: str = "") -> Share:
    return Share(CARD, slice=Slice(profile, start, uuid))


@pytest.mark.parametrize(
    ("wanted", "held", "fits"),
    [
        (WHOLE, (), True),
        (WHOLE, (WHOLE,), False),
        (WHOLE, (portion(100),), False),
        (portion(100), (WHOLE,), False),
        (portion(100), (Share(CARD),), False),  # nothing set: the device as a whole
        (memory(1), (WHOLE,), False),
        (SMALL, (WHOLE,), False),
        (portion(500), (portion(500),), True),
        (portion(501), (portion(500),), False),
        (portion(250), (portion(500), portion(250)), True),
        (portion(251), (portion(500), portion(250)), False),
        (memory(20), (memory(20),), True),
        (memory(21), (memory(20),), False),
        (memory(20), (portion(500),), True),
        (memory(21), (portion(500),), False),  # a portion has its part of the memory
        (portion(100), (SMALL,), False),
        (SMALL, (memory(1),), False),
        (cut("1g.5gb", 1), (SMALL,), True),
        (cut("1g.5gb", 0), (SMALL,), False),
        (cut("1g.5gb", 3, "MIG-a"), (SMALL,), False),
        (cut("2g.10gb", 0), (cut("1g.5gb", 1),), False),  # slots 0 and 1
        (cut("2g.10gb", 2), (cut("1g.5gb", 1),), True),
    ],
)
def test_a_device_takes_what_it_has_room_for(wanted: Share, held: tuple[Share, ...], fits: bool) -> None:
    said = device_conflict([wanted], [Holding(f"r-{n}", share) for n, share in enumerate(held)], DEVICES)
    assert bool(said) is not fits


def test_other_devices_do_not_count() -> None:
    there = Holding("r-1", Share("GPU-2", whole=True))
    assert device_conflict([WHOLE], [there], DEVICES) == ""
    assert "GPU-2" in device_conflict([WHOLE, Share("GPU-2", whole=True)], [there], DEVICES)


def test_the_reason_names_the_device_and_who_holds_it() -> None:
    held = [Holding("r-2", portion(500)), Holding("r-1", portion(400)), Holding("r-1", portion(100))]
    said = device_conflict([portion(100)], held, DEVICES)
    assert said.startswith("device GPU-1 is still held by replica r-1 and 1 more;")


def test_memory_of_an_unknown_amount_is_the_whole_device_and_a_slice_of_an_unknown_card_its_first_slot() -> None:
    assert device_conflict([memory(1)], [Holding("r", memory(1))], {})
    assert device_conflict([portion(500)], [Holding("r", portion(500))], {}) == ""
    assert device_conflict([cut("2g.10gb", 0)], [Holding("r", cut("1g.5gb", 1))], {}) == ""
    assert device_conflict([cut("2g.10gb", 1)], [Holding("r", cut("1g.5gb", 1))], {})


@pytest.mark.parametrize("share", [WHOLE, portion(1), portion(333), portion(999), memory(3), SMALL, cut("7g.40gb", 0)])
def test_a_share_is_read_from_the_journal_as_it_was_written(share: Share) -> None:
    assert share_of(described(share)) == share
