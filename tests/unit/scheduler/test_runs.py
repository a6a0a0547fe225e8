"""Grants that are written into many nodes at once are taken back without a trace."""

from __future__ import annotations

import pytest

from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Share
from muster_scheduler.domain.books.runs import put_many, take_back_many
from muster_scheduler.domain.fleet.nodes import Mode, Node
from tests.support.fleets import node


def said(nodes: list[Node]) -> object:
    return [
        (n.used_cpu, n.used_memory, n.used_slots, n.used_extra, n.entries, [(d.mode, d.free_milli) for d in n.devices])
        for n in nodes
    ]


def test_what_many_get_is_booked_on_nodes_and_devices_and_taken_back() -> None:
    first, second = node("n1", 2), node("n2", slots=4)
    device = first.devices[1]
    grants = [
        Grant(1_000, 10),
        Grant(500, 5, (Share(device.uuid, Kind.PORTION, 250),), charge=1_750),
        Grant(500, 5, (Share(device.uuid, Kind.PORTION, 500),), charge=3_500),
        Grant(100, 1, slots=2, charge=14_000, extra=(("licence", 1),)),
    ]
    holders = [Holder(f"w{number}", 1, 1, "worker", 0, 0) for number in range(len(grants))]
    nodes, before = [first, first, first, second], said([first, second])
    put_many(nodes, holders, grants)
    assert (first.used_cpu, first.used_memory, second.used_cpu, second.used_slots) == (2_000, 20, 100, 2)
    assert (device.mode, device.free_milli) == (Mode.SHARED, 250)
    assert second.used_extra == {"licence": 1}
    assert set(first.entries) == set(holders[:3])
    take_back_many(nodes, holders, grants)
    assert said([first, second]) == before


def test_a_share_of_a_device_that_the_node_lacks_is_a_fault_of_ours() -> None:
    with pytest.raises(KeyError, match="GPU-none"):
        put_many([node("n1", 1)], [Holder("w", 1, 1, "r", 0, 0)], [Grant(1, 1, (Share("GPU-none", Kind.WHOLE),))])
