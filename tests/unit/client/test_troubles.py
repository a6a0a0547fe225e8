"""What a list adds below its table, and how cards in MIG mode are counted."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_client.cli.render import tables, wide
from tests.support.plane_world import World
from tests.unit.client.conftest import Command


def test_a_list_tells_what_is_lost_or_restarts_and_how_far_trials_are(muster: Command, world: World) -> None:
    lost = workload_pb2.Reason(code="NodeLost", message="node n2 has not answered since 12:00:00 UTC")
    fine = workload_pb2.Reason(code="AllReady", message="7 of 12 trials are done")
    world.add("trainer", phase=workload_pb2.PHASE_DEGRADED, reason=lost)
    trials = workload_pb2.TrialProgress(done=7, total=12, at_once=3)
    world.add("series", phase=workload_pb2.PHASE_RUNNING, reason=fine, trials=trials)
    shown = muster("list").out
    assert "\ntrainer: node n2 has not answered since 12:00:00 UTC\n" in shown
    assert "series:" not in shown
    assert "7/12 done" in shown
    assert "7 of 12 done, 3 at once" in muster("describe", "series").out


def test_many_troubles_are_counted() -> None:
    reason = workload_pb2.Reason(code="Restart", message="restarting")
    items = [workload_pb2.Workload(name=f"w{n}", phase=workload_pb2.PHASE_PENDING, reason=reason) for n in range(12)]
    assert tables.troubles(items)[-2:] == ["w9: restarting", "and 2 more; `muster describe NAME` tells of each"]


def test_a_card_in_mig_mode_is_no_free_gpu() -> None:
    node = fleet_pb2.NodeView()
    node.devices.add(mode="idle", free_milli=1000)
    card = node.devices.add(uuid="GPU-6e0a1c52-94b7-4d0e-9d3b-2f5a7c810004", mode="mig", free_sevenths=4)
    card.slices.add(profile="3g.20gb", held=True)
    card.slices.add(profile="1g.5gb", start=4)
    assert tables.free_gpus(node) == "1/1 + MIG 4/7"
    shown = StringIO()
    Console(width=80, file=shown).print(wide.node(node))
    assert "(3g.20gb) 1g.5gb" in shown.getvalue()
    assert wide._free(card) == "4/7"


def test_a_limit_of_pods_is_shown_as_free_and_all() -> None:
    node, other = fleet_pb2.NodeView(name="n", most_replicas=7, replicas=2), fleet_pb2.NodeView(name="o", replicas=2)
    assert (tables.free_replicas(node), tables.free_replicas(other)) == ("5/7", "")
    shown = [StringIO() for _ in range(3)]
    for into, what in zip(shown, (wide.node(node), tables.nodes([node, other]), tables.nodes([other])), strict=True):
        Console(width=120, file=into).print(what)
    described, both, alone = (each.getvalue() for each in shown)
    assert "Replicas   room for 5 of 7, by the limit of pods" in described
    assert "REPLICAS" in both
    assert "REPLICAS" not in alone
