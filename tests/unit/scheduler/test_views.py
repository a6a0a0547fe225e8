"""What a node shows of its devices is what could still be placed on them."""

from __future__ import annotations

from muster_scheduler.adapters import views
from tests.support.fleets import GIB, Fleet, device_memory, devices, mig_slice, node, portion, request, role, whole


def shown(fleet: Fleet) -> list[tuple[str, int, int]]:
    (of,) = fleet.world.inventory.nodes.values()
    return [(each.mode, each.free_milli, each.free_memory_bytes) for each in views.node(fleet.world, of).devices]


def test_the_scarcer_of_parts_and_memory_is_what_a_shared_card_has_left() -> None:
    fleet = Fleet(node("n", 2))
    fleet.submit(1, request(role(portion(500))))
    fleet.submit(2, request(role(device_memory(20 * GIB))))
    assert shown(fleet) == [("shared", 250, 20 * GIB), ("idle", 1000, 80 * GIB)]


def test_a_cut_card_has_the_memory_of_its_free_slices_and_a_whole_one_nothing() -> None:
    cards = [*devices("cut", 1, mig=True), *devices("given", 1)]
    fleet = Fleet(node("n", cards=cards))
    fleet.submit(1, request(role(mig_slice("3g.40gb"))))
    fleet.submit(2, request(role(whole())))
    assert shown(fleet) == [("mig", 0, 40 * GIB), ("whole", 0, 0)]
