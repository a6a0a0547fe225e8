"""MIG slices that a cluster only counts: the devices that have them in the inventory, and records of assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.fleet.v1 import fleet_pb2
from muster_kernel.lifecycle import Phase
from muster_kernel.mig import CARDS, overlap_free
from muster_kernel.quantities import GPU
from muster_kernel.slots import mig_profile, mig_resource
from muster_scheduler.adapters import encoding, views
from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Shape, Share
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Device, Mig, Node, SlotGroup
from muster_scheduler.domain.fleet.slots import MOST_SLICES, add_devices, counts_of
from tests.support.fleets import Fleet, device_memory, mig_slice, node, portion, request, role, whole

CARD = "A100-40GB"
STATIC = Profile(backend="kubernetes", anonymous=True, portions=False, memory_requests=False, mig=Mig.STATIC)
PROFILES = ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


def group(profile: str, count: int, foreign: int = 0, model: str = CARD) -> SlotGroup:
    resource = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
    return SlotGroup(resource, profile, model, 40 << 30, count, foreign)


def counted(*groups: SlotGroup, name: str = "n1") -> Node:
    made = node(name, 0)
    made.groups = groups
    return made


def runs_of(workload: Workload) -> Sequence[fleet_pb2.ReplicaRun]:
    made = fleet_pb2.Revision()
    encoding.add_runs(made.runs, encoding.spots_of(workload.replicas.values()))
    return made.runs


def test_slices_are_placed_charged_and_told_as_units_of_their_resource() -> None:
    fleet = Fleet(counted(group("1g.5gb", 2), group("3g.20gb", 4)), profile=STATIC)
    wide = fleet.submit(1, request(role(mig_slice("3g.20gb", 2))))
    narrow = fleet.submit(2, request(role(mig_slice("1g.5gb"))))
    assert (wide.phase, narrow.phase) == (Phase.INITIALIZING, Phase.INITIALIZING)
    assert fleet.submit(3, request(role(mig_slice("3g.20gb", 3)))).phase is Phase.PENDING
    assert fleet.world.queues.account("p", "default").allocated == 7 * GPU // 7
    (run,) = runs_of(wide)
    assert [(each.resource, each.count) for each in run.slots] == [("nvidia.com/mig-3g.20gb", 2)]
    assert not run.devices
    shown = encoding.replica_of(wide.replicas["worker", 0])
    assert list(shown.devices) == ["nvidia.com/mig-3g.20gb"] * 2


def test_replicas_with_slices_of_different_profiles_are_runs_of_their_own() -> None:
    grants = (_grant("1g.5gb"), _grant("1g.5gb"), _grant("3g.20gb"))
    made = fleet_pb2.Revision()
    encoding.add_runs(made.runs, [("worker", rank, 0, "n1", grant) for rank, grant in enumerate(grants)])
    assert [(run.first_index, run.count, run.slots[0].resource) for run in made.runs] == [
        (0, 2, "nvidia.com/mig-1g.5gb"),
        (2, 1, "nvidia.com/mig-3g.20gb"),
    ]


def _grant(profile: str) -> Grant:
    fleet = Fleet(counted(group(profile, 1)), profile=STATIC)
    return fleet.submit(1, request(role(mig_slice(profile)))).replicas["worker", 0].grant


def test_what_others_hold_is_not_given() -> None:
    fleet = Fleet(counted(group("1g.5gb", 3)), profile=STATIC)
    first = fleet.submit(1, request(role(mig_slice("1g.5gb"))))
    fleet.inventory("c1", [counted(group("1g.5gb", 3, foreign=2))], profile=STATIC)
    assert first.phase is Phase.INITIALIZING
    assert fleet.submit(2, request(role(mig_slice("1g.5gb")))).phase is Phase.PENDING
    fleet.inventory("c1", [counted(group("1g.5gb", 3, foreign=1))], profile=STATIC)
    fleet.wait(1)
    assert fleet.workload(2).phase is Phase.INITIALIZING


def test_a_node_with_whole_devices_and_slices_gives_both() -> None:
    fleet = Fleet(counted(group("", 2, foreign=1), group("1g.5gb", 7)), profile=STATIC)
    one = fleet.submit(1, request(role(whole(1))))
    assert one.phase is Phase.INITIALIZING
    assert fleet.submit(2, request(role(whole(1)))).phase is Phase.PENDING
    assert fleet.submit(3, request(role(mig_slice("1g.5gb")), priority=90)).phase is Phase.INITIALIZING
    assert [(each.resource, each.count) for each in runs_of(one)[0].slots] == [("nvidia.com/gpu", 1)]
    shown = views.node(fleet.world, fleet.world.inventory.nodes["c1", "n1"])
    assert [device.uuid for device in shown.devices] == ["n1/0", "n1/1", "n1/2"]
    assert [device.mode for device in shown.devices] == ["whole", "foreign", "mig"]


@pytest.mark.parametrize(
    ("slices", "cards"),
    [
        ({"1g.5gb": 56}, 8),
        ({"1g.5gb": 16, "2g.10gb": 8, "3g.20gb": 8}, 8),
        ({"4g.20gb": 8, "3g.20gb": 8}, 8),
        ({"7g.40gb": 2}, 2),
        ({"1g.10gb": 4, "1g.5gb": 0}, 1),
    ],
)
def test_slices_need_as_many_cards_as_the_node_has(slices: dict[str, int], cards: int) -> None:
    """The plugin's own layouts: all alike, balanced, and two profiles that fill a card."""
    made = counted(*(group(profile, count) for profile, count in slices.items()))
    add_devices(made, None)
    assert len(made.devices) == cards


def test_slices_of_a_card_without_geometry_are_counted_by_sevenths() -> None:
    made = counted(group("2g.99gb", 7, model="X-900"))
    add_devices(made, None)
    assert [len(device.layout) for device in made.devices] == [3, 2, 2]


@given(
    reports=st.lists(
        st.dictionaries(st.sampled_from(PROFILES), st.tuples(st.integers(0, 9), st.integers(0, 4))), min_size=1
    ),
    choices=st.lists(st.integers(0, 100), max_size=12),
)
def test_cards_have_what_is_free_and_keep_what_is_held(
    reports: list[dict[str, tuple[int, int]]], choices: list[int]
) -> None:
    known: Node | None = None
    taken = 0
    for report in reports:
        made = counted(*(group(profile, *amounts) for profile, amounts in sorted(report.items())))
        held = {(d.uuid, s.profile, s.start) for d in (known.devices if known else ()) for s in d.entries.values()}
        add_devices(made, known)
        there = {(device.uuid, *piece) for device in made.devices for piece in device.layout}
        free = Counter(profile for _, profile, _ in there - held)
        for profile, (count, foreign) in report.items():
            ours = sum(name == profile for _, name, _ in held)
            assert free[profile] == max(0, count - foreign - ours)
        assert not report or held <= there
        assert len({device.uuid for device in made.devices}) == len(made.devices)
        for device in made.devices:
            assert device.mig
            assert overlap_free(CARDS[CARD], device.layout)
            _carry(known, device)
        for choice in choices[: 2 if there - held else 0]:
            uuid, profile, start = sorted(there)[choice % len(there)]
            card = made.device(uuid)
            assert card is not None
            if not card.slice_taken(profile, start):
                taken += 1
                card.entries[Holder(f"w{taken}", 1, 0, "worker", 0, 0)] = Share(
                    uuid, Kind.SLICE, profile=profile, start=start
                )
        choices = choices[2:]
        if report:  # without a report the inventory keeps the devices that are held
            known = made


def _carry(known: Node | None, device: Device) -> None:
    before = known.device(device.uuid) if known else None
    if before is not None:
        device.entries = dict(before.entries)


def test_a_node_without_slices_has_a_number_of_devices() -> None:
    made = counted(group("", 4, foreign=1))
    add_devices(made, None)
    assert (made.slots, made.foreign_slots, made.slot_model, made.devices) == (4, 1, CARD, [])


def test_what_is_held_is_not_offered_when_a_device_fails() -> None:
    fleet = Fleet(counted(group("", 2), group("1g.5gb", 1)), profile=STATIC)
    first, second = (fleet.submit(number, request(role(whole(1)))) for number in (1, 2))
    assert second.phase is Phase.INITIALIZING
    fleet.run(1)
    fleet.finish(1)
    assert not first.replicas or first.phase is not Phase.RUNNING
    fleet.inventory("c1", [counted(group("", 1), group("1g.5gb", 1))], profile=STATIC)
    assert fleet.submit(3, request(role(whole(1)))).phase is Phase.PENDING


def test_devices_stay_charged_when_a_node_loses_its_slices() -> None:
    fleet = Fleet(counted(group("", 3), group("1g.5gb", 1)), profile=STATIC)
    assert fleet.submit(1, request(role(whole(2)))).phase is Phase.INITIALIZING
    fleet.inventory("c1", [counted(group("", 3))], profile=STATIC)
    assert fleet.world.inventory.nodes["c1", "n1"].free_slots == 1
    fleet.state.check()


def test_a_number_that_is_held_is_not_offered_as_slices() -> None:
    """The plugin changes to its `single` strategy while two whole devices are held."""
    fleet = Fleet(counted(group("", 3)), profile=STATIC)
    assert fleet.submit(1, request(role(whole(2)))).phase is Phase.INITIALIZING
    single = SlotGroup("nvidia.com/gpu", "1g.5gb", CARD, 0, 3, 0)
    fleet.inventory("c1", [counted(single)], profile=STATIC)
    assert fleet.submit(2, request(role(mig_slice("1g.5gb")))).phase is Phase.INITIALIZING
    assert fleet.submit(3, request(role(mig_slice("1g.5gb")))).phase is Phase.PENDING


def test_a_report_that_is_applied_twice_gives_the_same() -> None:
    made = counted(group("", 2, foreign=1), group("1g.5gb", 9))
    add_devices(made, None)
    before = [(device.uuid, device.layout, device.foreign) for device in made.devices]
    add_devices(made, None)
    assert [(device.uuid, device.layout, device.foreign) for device in made.devices] == before


def test_what_is_no_profile_is_left_out_and_told() -> None:
    made = counted(group("odd", 3), group("1g.5gb", 2), group("9g.5gb", 2))
    (told,) = add_devices(made, None)
    assert "'odd'" in told
    assert [piece for device in made.devices for piece in device.layout] == [("1g.5gb", 5), ("1g.5gb", 6)]


def test_a_huge_report_is_cut_and_read_quickly() -> None:
    made = counted(*(group(f"{sevenths}g.{size}gb", 10**9) for sevenths in range(1, 8) for size in range(1, 5)))
    add_devices(made, None)
    assert sum(len(device.layout) for device in made.devices) == MOST_SLICES


def test_a_card_whose_model_is_told_late_keeps_its_slices_open() -> None:
    fleet = Fleet(counted(group("2g.10gb", 3, model="")), profile=STATIC)
    held = [fleet.submit(number, request(role(mig_slice("2g.10gb")))).phase for number in (1, 2)]
    assert held == [Phase.INITIALIZING] * 2
    fleet.inventory("c1", [counted(group("2g.10gb", 3))], profile=STATIC)
    assert fleet.submit(3, request(role(mig_slice("2g.10gb")))).phase is Phase.INITIALIZING


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("nvidia.com/mig-1g.5gb", "1g.5gb"),
        ("nvidia.com/mig-1g.5gb.me", "1g.5gb+me"),
        ("nvidia.com/mig-gb", ""),
        ("nvidia.com/gpu", ""),
        ("mig-1g.5gb", ""),
    ],
)
def test_the_resources_of_profiles(resource: str, profile: str) -> None:
    assert mig_profile(resource) == profile
    if profile:
        assert mig_resource("nvidia.com/mig-*", profile) == resource


def test_shares_are_counted_by_resource() -> None:
    shares = [Share(f"slots:c1/n1/nvidia.com/mig-*/{n}", Kind.SLICE, profile=p) for n, p in enumerate(("1g.5gb",) * 2)]
    assert counts_of(shares) == (("nvidia.com/mig-1g.5gb", 2),)
    assert counts_of([Share("slots:c1/n1/nvidia.com/gpu/0", Kind.WHOLE)]) == (("nvidia.com/gpu", 1),)


@pytest.mark.parametrize("counting", ["", "1g.5gb"])
@pytest.mark.parametrize("shape", [portion(500), device_memory(40 << 30)])
def test_parts_of_devices_never_go_to_nodes_that_count_theirs(shape: Shape, counting: str) -> None:
    """A cluster offers parts as a whole: some of its nodes split devices, and others only count them."""
    able = STATIC._replace(anonymous=False, portions=True, memory_requests=True)
    fleet = Fleet(counted(group(counting, 7)), node("n2", 1), profile=able)
    for number in (1, 2):
        made = fleet.submit(number, request(role(shape)))
        assert {each.node for each in made.replicas.values()} == {("c1", "n2")}
    assert fleet.submit(3, request(role(shape))).phase is Phase.PENDING
    own = mig_slice(counting) if counting else whole(7)
    assert {each.node for each in fleet.submit(4, request(role(own))).replicas.values()} == {("c1", "n1")}
