"""What no node and no pool could hold, even idle: what lacks is named with its numbers, and what would fit."""

from __future__ import annotations

from muster_kernel.mig import CARDS
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig
from tests.support.asking import said, why
from tests.support.fleets import Fleet, device_memory, host, mig_slice, node, portion, request, role, whole


def test_what_never_fits() -> None:
    fleet = Fleet(node("n1", 2, cpu=4000), node("m1", 1, mig=True, cpu=4000), profile=Profile(mig=Mig.DYNAMIC))
    fleet.submit(1, request(role(host(cpu=9000))))
    fleet.submit(2, request(role(device_memory(200 << 30))))
    fleet.submit(3, request(role(mig_slice("9g.10gb"))))
    fleet.submit(4, request(role(whole(3))))
    assert [said(fleet, number) for number in (1, 2, 3, 4)] == [
        (
            "HostTooLarge",
            "needs 9 CPU on one node; the largest node has 4",
            ["2 have too little CPU"],
            [
                "it asked for at most 4 CPU on one node",
                "a node with 9 CPU and 1Gi of memory joined node pool default",
            ],
        ),
        (
            "DeviceTooSmall",
            "needs 200Gi of GPU memory on one GPU; the largest GPU that can be shared has 80Gi",
            ["2 have GPUs with too little memory"],
            [
                "it asked for at most 80Gi of GPU memory",
                "a node with 100m CPU, 1Gi of memory and room for 200Gi of GPU memory joined node pool default",
            ],
        ),
        (
            "NoSuchSlice",
            "no GPU gives the MIG slice that it asks for: of 3 GPUs, 1 is in MIG mode",
            ["1 has no such GPU", "1 has no GPU that gives that MIG slice"],
            [f"it asked for a MIG profile that a GPU has: A100-80GB has {', '.join(CARDS['A100-80GB'].profiles)}"],
        ),
        (
            "TooLarge",
            "needs 3 GPUs on one node; the largest node has 2",
            ["1 has 1 GPU in MIG mode, for slices alone, and too few others", "1 has too few GPUs"],
            [
                "it asked for at most 2 GPUs on one node",
                "a node with 1 CPU, 1Gi of memory and 3 GPUs joined node pool default",
            ],
        ),
    ]


def test_a_replica_larger_than_every_node_is_measured_against_one_node() -> None:
    # Four nodes of 4 have 16 GPUs in sum, and not one of them has 6; that they are busy as well is beside the point.
    fleet = Fleet(*(node(f"n{n}", 4) for n in range(4)), node("other", 8, pool="other"))
    fleet.submit(1, request(role(whole(4), 4)))
    fleet.submit(2, request(role(whole(6))))
    assert said(fleet, 2) == (
        "TooLarge",
        "needs 6 GPUs on one node; the largest node has 4",
        ["4 have too few GPUs", "1 is in another node pool"],
        [
            "it asked for at most 4 GPUs on one node, and there was room",
            "a node with 1 CPU, 1Gi of memory and 6 GPUs joined node pool default",
        ],
    )
    fleet.finish(1)
    assert why(fleet, 2).unblockers[0] == "it asked for at most 4 GPUs on one node"
    fleet.submit(9, request(role(whole(6, cpu=0, memory=0))))
    assert why(fleet, 9).unblockers[1] == "a node with 6 GPUs joined node pool default"
    fleet.submit(3, request(role(whole(4))))
    assert fleet.workload(3).replicas
    fleet.inventory("c1", [*(node(f"n{n}", 4) for n in range(4)), node("n9", 6)])
    assert fleet.workload(2).replicas


def test_a_gang_larger_than_its_pool_is_measured_against_the_pool() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 5))
    fleet.submit(1, request(role(whole(2), 5)))
    assert said(fleet, 1) == (
        "TooLargeTogether",
        "needs 5 replicas with 10 GPUs at once, more than idle nodes hold together; the largest node pool has 9 GPUs",
        ["2 would do"],
        ["it had at most 4 replicas"],
    )
    fleet.submit(2, request(role(whole(2), 4)))
    assert fleet.workload(2).replicas
    assert why(fleet, 1).unblockers == ("it had at most 4 replicas, and there was room",)
    fleet.submit(3, request(role(whole(4), 3), role(host(), 1, "launcher")))
    assert said(fleet, 3)[::3] == ("TooLargeTogether", ["it had at most 2 replicas of worker, and there was room"])


def test_a_gang_without_gpus_is_measured_by_what_idle_nodes_hold() -> None:
    fleet = Fleet(*(node(f"n{n}", 4) for n in range(4)))
    fleet.submit(1, request(role(host(60_000), 5)))
    fleet.submit(2, request(role(whole(1, cpu=60_000), 5)))
    fleet.submit(3, request(role(host(60_000), 4), role(host(60_000), 1, "launcher")))
    rest = "at once; the idle nodes of its node pool hold 4"
    assert [said(fleet, number)[1] for number in (1, 2)] == [f"needs 5 replicas {rest}"] * 2
    assert said(fleet, 3)[1] == "needs 5 replicas at once, more than the idle nodes of its node pool hold together"
    assert why(fleet, 1).unblockers == ("it had at most 4 replicas",)


def test_only_what_lacks_on_a_node_is_said() -> None:
    fleet = Fleet(node("n1", 2, cpu=4000))
    asked = (host(1000, 600 << 30), host(5000, 600 << 30), host(0, 0), host(0, 600 << 30))
    for number, shape in enumerate(asked, 1):
        fleet.submit(number, request(role(shape)))
    assert [said(fleet, number)[1] for number in (1, 2)] == [
        "needs 600Gi of memory on one node; the largest node has 512Gi",
        "needs 5 CPU and 600Gi of memory on one node; the most is 4 CPU and 512Gi",
    ]
    assert why(fleet, 4).asks == "600Gi"
    assert why(fleet, 4).unblockers[0] == "it asked for at most 512Gi of memory on one node"


def test_portions_on_more_devices_than_a_node_has() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, request(role(portion(500, 3), 2)))
    assert said(fleet, 1) == (
        "TooLarge",
        "needs 3 GPUs on one node; the largest node has 2",
        ["1 has too few GPUs to share"],
        [
            "it asked for at most 2 GPUs on one node",
            "2 nodes, each with 100m CPU, 1Gi of memory and 3 devices with room for 0.5 GPU, joined node pool default",
        ],
    )


def test_what_nodes_have_beside_what_they_have_enough_of_is_said() -> None:
    fleet = Fleet(node("a", 8, cpu=8_000), node("b", 2, cpu=64_000))
    fleet.submit(1, request(role(whole(4, cpu=32_000))))
    assert said(fleet, 1)[3] == [
        "it asked for at most 2 GPUs on one node",
        "it asked for at most 8 CPU on one node",
        "a node with 32 CPU, 1Gi of memory and 4 GPUs joined node pool default",
    ]
    fleet.submit(2, request(role(whole(4, cpu=100_000))))
    assert said(fleet, 2)[3][0] == "it asked for at most 8 CPU on one node"
