"""`muster why`: an answer that reads like one and stays within the terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1 import scheduler_pb2
from muster.workload.v1 import workload_pb2
from muster_kernel.quantities import GPU
from tests.support.plane_world import World
from tests.unit.client.conftest import Command


def _ago(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC) - timedelta(seconds=seconds))
    return stamp


def test_why_reads_like_an_answer(muster: Command, world: World) -> None:
    world.add("bert-large-7")
    world.explanation.CopyFrom(
        scheduler_pb2.Explanation(
            name="bert-large-7",
            project="team-a",
            phase=workload_pb2.PHASE_PENDING,
            asks="16 GPUs",
            node_pool="h100",
            queued_at=_ago(12 * 60 + 3),
            rank=1,
            reason=workload_pb2.Reason(code="OverQuota", message="quota: team-a uses 24 of 32 GPUs"),
            excluded=[
                scheduler_pb2.ExcludedNodes(constraint="NoIdleGpu", nodes=41, text="have no idle GPU"),
                scheduler_pb2.ExcludedNodes(constraint="WrongNodeType", nodes=12, text="12 are h200 (not asked for)"),
            ],
            unblockers=["it were preemptible", "team-a deserved 40"],
        )
    )
    assert muster("why", "bert-large-7").out.splitlines() == [
        "bert-large-7 waits for 16 GPUs in node pool h100 (queued 12 min, first in team-a).",
        "",
        "  Blocked by   quota: team-a uses 24 of 32 GPUs",
        "  Nodes        41 have no idle GPU · 12 are h200 (not asked for)",
        "",
        "  It would start now if    it were preemptible, or",
        "                           team-a deserved 40.",
    ]


def test_why_of_what_never_fits_stays_within_the_terminal(muster: Command, world: World) -> None:
    world.add("giant")
    world.explanation.CopyFrom(
        scheduler_pb2.Explanation(
            name="giant",
            phase=workload_pb2.PHASE_PENDING,
            asks="6 GPUs",
            node_pool="default",
            reason=workload_pb2.Reason(code="TooLarge", message="needs 6 GPUs on one node; the largest node has 4"),
            excluded=[scheduler_pb2.ExcludedNodes(constraint="TooFewGpus", nodes=1, text="has too few GPUs")],
            nearest=["n1 lacks 2 GPUs", "n2 lacks 3 GPUs and 4 CPU"],
            unblockers=[
                "it asked for at most 4 GPUs on one node, and there was room",
                "a node with 1 CPU, 1Gi of memory and 6 GPUs joined node pool default",
            ],
        )
    )
    assert muster("why", "giant").out.splitlines() == [
        "giant waits for 6 GPUs in node pool default.",
        "",
        "  Blocked by   needs 6 GPUs on one node; the largest node has 4",
        "  Nodes        1 has too few GPUs",
        "  Nearest      n1 lacks 2 GPUs · n2 lacks 3 GPUs and 4 CPU",
        "",
        "  It would start now if    it asked for at most 4 GPUs on one node, and there",
        "                             was room, or",
        "                           a node with 1 CPU, 1Gi of memory and 6 GPUs joined",
        "                             node pool default.",
    ]


def test_why_shows_the_attempt_the_shares_and_the_estimate(muster: Command, world: World) -> None:
    world.add("extra")
    made = scheduler_pb2.Explanation(
        name="extra",
        phase=workload_pb2.PHASE_PENDING,
        asks="4 GPUs",
        node_pool="default",
        reason=workload_pb2.Reason(code="NoCapacity", message="4 GPUs are asked for and 0 are free in the pool"),
        attempts=[
            scheduler_pb2.RoomAttempt(
                way="reclaim", lack="share", text="search would hold 12 GPUs, and its fair share in the pool is 8 GPUs"
            ),
            scheduler_pb2.RoomAttempt(way="preempt", lack="nothing", text="no work of search ranks below it"),
        ],
        shares=[
            scheduler_pb2.QueueShare(
                queue="search", gpu_held=8 * GPU, gpu_wanted=12 * GPU, gpu_fair=8 * GPU, gpu_total=16 * GPU
            )
        ],
        estimate=scheduler_pb2.StartEstimate(earliest=_ago(-630), basis="2 workloads have to end by then"),
    )
    world.explanation.CopyFrom(made)
    assert muster("why", "extra").out.splitlines() == [
        "extra waits for 4 GPUs in node pool default.",
        "",
        "  Blocked by   4 GPUs are asked for and 0 are free in the pool",
        "  Room         search would hold 12 GPUs, and its fair share in the pool is 8",
        "                 GPUs",
        "               no work of search ranks below it",
        "  Shares       search holds 8, wants 12, deserves 0; fair share 8 of 16 GPUs",
        "  Starts       in 10 min at the earliest: 2 workloads have to end by then",
    ]
    made.estimate.latest.CopyFrom(_ago(-3 * 3600 - 30))
    world.explanation.CopyFrom(made)
    assert "in 10 min to 3 h 0 min: 2 workloads" in muster("why", "extra").out
    made.estimate.ClearField("earliest")
    world.explanation.CopyFrom(made)
    assert "within 3 h 0 min: 2 workloads" in muster("why", "extra").out
    made.estimate.likely.CopyFrom(_ago(-1830))
    world.explanation.CopyFrom(made)
    assert "within 3 h 0 min, probably within 30 min: 2 workloads" in muster("why", "extra").out
    made.estimate.ClearField("latest")
    world.explanation.CopyFrom(made)
    assert "Starts       probably within 30 min: 2 workloads" in muster("why", "extra").out
    made.estimate.Clear()
    made.estimate.basis = "no run-time limit"
    world.explanation.CopyFrom(made)
    assert muster("why", "extra").out.endswith("  Starts       unknown when: no run-time limit\n")


def test_why_says_which_clusters_refused_it_and_when_they_are_asked_again(muster: Command, world: World) -> None:
    world.add("bert-8")
    refusals = [
        scheduler_pb2.SeenRefusal(
            cluster="north",
            node="n7",
            reason=workload_pb2.Reason(code="ForeignTaken", message="0/9 nodes are available"),
            at=_ago(41),
            again_at=_ago(-79.5),
            times=2,
        ),
        scheduler_pb2.SeenRefusal(
            cluster="south",
            reason=workload_pb2.Reason(code="AdmissionDenied", message='the registry is not "allowed"'),
            at=_ago(7260),
            times=5,
        ),
    ]
    world.explanation.CopyFrom(
        scheduler_pb2.Explanation(
            name="bert-8",
            phase=workload_pb2.PHASE_PENDING,
            asks="4 GPUs",
            reason=workload_pb2.Reason(code="NoRoom", message="no room"),
            refusals=refusals,
        )
    )
    assert muster("why", "bert-8").out.splitlines()[2:] == [
        "  Blocked by   no room",
        "  Refused      north/n7 41 s ago: ForeignTaken: 0/9 nodes are available; tried",
        "                 there again in 79 s, refused 2 times in a row",
        "               cluster south 2 h 1 min ago: AdmissionDenied: the registry is not",
        '                 "allowed"; not tried there again until its spec or the',
        "                 cluster's profile changes, refused 5 times in a row",
    ]
    told = json.loads(muster("why", "bert-8", "--json").out)
    assert [each["times"] for each in told["refusals"]] == [2, 5]


def test_why_of_what_does_not_wait(muster: Command, world: World) -> None:
    world.add("bert", phase=workload_pb2.PHASE_RUNNING)
    world.explanation.CopyFrom(scheduler_pb2.Explanation(name="bert", phase=workload_pb2.PHASE_RUNNING))
    assert muster("why", "bert").out == "bert does not wait: it is Running.\n"


def test_why_of_what_runs_with_fewer_replicas_than_it_would_have(muster: Command, world: World) -> None:
    world.add("sweep", phase=workload_pb2.PHASE_RUNNING)
    made = scheduler_pb2.Explanation(
        name="sweep",
        phase=workload_pb2.PHASE_RUNNING,
        reason=workload_pb2.Reason(code="AllReady", message="all replicas are ready"),
        growth=scheduler_pb2.Growth(
            replicas=4,
            wanted=6,
            reason=workload_pb2.Reason(
                code="OverLimit", message="the project uses 4 of the 4 GPUs that it may hold at most (1 short)"
            ),
        ),
        excluded=[scheduler_pb2.ExcludedNodes(constraint="Fits", nodes=1, text="would do")],
        shares=[scheduler_pb2.QueueShare(queue="search", gpu_held=4 * GPU, gpu_fair=8 * GPU, gpu_total=8 * GPU)],
        unblockers=["search might hold 5 GPUs in node pool default"],
    )
    world.explanation.CopyFrom(made)
    assert muster("why", "sweep").out.splitlines() == [
        "sweep does not wait: it is Running, with 4 of the 6 replicas that it would have.",
        "",
        "  Held back by the project uses 4 of the 4 GPUs that it may hold at most (1",
        "               short)",
        "  Nodes        1 would do",
        "  Shares       search holds 4, wants 0, deserves 0; fair share 8 of 8 GPUs",
        "",
        "  It would have one more if    search might hold 5 GPUs in node pool default.",
    ]
    told = json.loads(muster("why", "sweep", "--json").out)
    assert told["growth"]["replicas"] == 4
    assert told["growth"]["wanted"] == 6
    assert told["growth"]["reason"]["code"] == "OverLimit"
    made.growth.reason.message = ""
    made.growth.before = 3
    made.ClearField("unblockers")
    world.explanation.CopyFrom(made)
    lines = muster("why", "sweep").out.splitlines()
    assert lines[1] == "  and 3 of the revision before."
    assert lines[3] == "  Held back by OverLimit"
