"""Between the contract's messages and the agent's values, both ways."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from muster.events.v1 import agent_pb2, dead_letter_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters import decode
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.adapters.records import Records
from muster_cluster_agent.domain.actions import Refuse
from muster_cluster_agent.domain.budgets import Limits
from muster_cluster_agent.domain.fleet import (
    Device,
    Difference,
    Fleet,
    Foreign,
    Node,
    NodeState,
    Profile,
    Taint,
)
from muster_cluster_agent.domain.model import Failure, Framework, Pattern, Probe, Share, Slice, State, Status
from muster_cluster_agent.domain.usage import Sample
from muster_cluster_agent.errors import BadRecord
from muster_cluster_agent.ports import (
    BeatReport,
    DeadLetter,
    Held,
    HeldReport,
    InventoryReport,
    RefusalReport,
    Report,
    SampleReport,
    StatusReport,
)
from muster_kernel.reasons import RefusalCode

ID = "0190c0de-0000-7000-8000-000000000001"
GPU = "GPU-11111111-1111-4111-8111-111111111111"
RAW = uuid.UUID(GPU[4:]).bytes
KINDS = {
    "training": (options_pb2.KIND_TRAINING, 0, Pattern.SINGLE),
    "trials": (options_pb2.KIND_TRAINING, 0, Pattern.TRIALS),
    "workspace": (options_pb2.KIND_WORKSPACE, 0, Pattern.SINGLE),
    "inference": (options_pb2.KIND_INFERENCE, 0, Pattern.SERVICE),
    "mpi": (options_pb2.KIND_DISTRIBUTED, workload_pb2.FRAMEWORK_MPI, Pattern.MPI),
    "colossalai": (options_pb2.KIND_DISTRIBUTED, workload_pb2.FRAMEWORK_COLOSSALAI, Pattern.MPI),
    "pytorch": (options_pb2.KIND_DISTRIBUTED, workload_pb2.FRAMEWORK_PYTORCH, Pattern.GANG),
}


def message(**spec: Any) -> fleet_pb2.Assignment:
    own = workload_pb2.WorkloadSpec(**{"kind": options_pb2.KIND_TRAINING, "command": "true", **spec})
    shares = [
        fleet_pb2.DeviceShare(device=RAW, portion_milli=500),
        fleet_pb2.DeviceShare(device=b"odd", memory_bytes=7),
        fleet_pb2.DeviceShare(device=b"odd", slice=fleet_pb2.MigSlice(profile="1g.5gb", start=1, uuid="MIG-1")),
        fleet_pb2.DeviceShare(device=b"odd", whole=True),
    ]
    run = fleet_pb2.ReplicaRun(role="worker", count=1, k=2, node="n", devices=[fleet_pb2.ReplicaDevices(shares=shares)])
    revision = fleet_pb2.Revision(generation=3, attempt=4, spec=own, runs=[run])
    made = fleet_pb2.Assignment(workload_id=ID, epoch=5, agent_instance="me", revision=6, revisions=[revision])
    made.grace_seconds = 9999
    made.start_deadline.FromSeconds(1000)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_an_assignment_says_how_its_replicas_belong_together(kind: str) -> None:
    number, framework, pattern = KINDS[kind]
    spec: dict[str, Any] = {"kind": number}
    if framework:
        spec["framework"] = framework
    if pattern is Pattern.TRIALS:
        spec["completions"] = 2
    made = decode.assignment(ID, message(**spec).SerializeToString(), {}, LOCAL)
    assert made.newest.pattern is pattern
    assert (made.newest.framework is Framework.COLOSSALAI) == (kind == "colossalai")
    assert (made.epoch, made.instance, made.newest.key, made.grace, made.start_deadline) == (5, "me", (3, 4), 300, 1000)


@pytest.mark.parametrize(("policy", "cleaned"), [("NONE", False), ("ALL", True), ("RUNNING", True)])
def test_an_assignment_says_whether_the_rest_of_an_ended_gang_is_stopped_at_once(policy: str, *, cleaned: bool) -> None:
    said = workload_pb2.CleanPodPolicy.Value(f"CLEAN_POD_POLICY_{policy}")
    spec = message(kind=options_pb2.KIND_DISTRIBUTED, clean_pod_policy=said)
    assert decode.assignment(ID, spec.SerializeToString(), {}, LOCAL).newest.cleaned is cleaned


def test_devices_come_out_under_the_names_of_the_inventory() -> None:
    made = decode.assignment(ID, message().SerializeToString(), {decode.uuid_bytes(GPU): GPU}, LOCAL)
    assert made.newest.runs[0].shares == (
        (
            Share(GPU, portion_milli=500),
            Share("odd", memory_bytes=7),
            Share("odd", slice=Slice("1g.5gb", 1, "MIG-1")),
            Share("odd", whole=True),
        ),
    )
    assert decode.device_name(RAW, {}) == GPU
    assert decode.uuid_bytes(GPU[4:]) == RAW
    assert decode.uuid_bytes("MIG-1") == b"MIG-1"


def test_a_spec_becomes_a_template() -> None:
    spec = message(
        image="x",
        environment=[
            workload_pb2.EnvironmentVariable(label="A", value="1"),
            workload_pb2.EnvironmentVariable(label="B", value="2", deleted=True),
            workload_pb2.EnvironmentVariable(label="C", value="SECRET:name,key"),
        ],
        ports=[workload_pb2.Port(container=80), workload_pb2.Port(container=81, deleted=True)],
        readiness_probe=workload_pb2.ReadinessProbe(
            path="/x",
            initial_delay_seconds=2,
            timeout_seconds=3,
            success_threshold=4,
            failure_threshold=5,
            scheme=workload_pb2.PROBE_SCHEME_HTTPS,
            host="h",
        ),
        master_spec=workload_pb2.WorkloadSpec(command="other"),
        cpu="500m",
        memory="1Gi",
        memory_limit="2Gi",
    )
    newest = decode.assignment(ID, spec.SerializeToString(), {}, LOCAL).newest
    assert newest.template.env == (("A", "1"),)
    assert newest.template.ports == (80,)
    assert newest.template.probe == Probe("/x", 0, 2.0, 0.0, 3.0, 4, 5, tls=True, host="h")
    assert newest.template.limits == Limits(cpu=500, memory=1 << 30, memory_limit=2 << 30)
    assert newest.without_effect == "the local back end runs commands on the machine itself: image had no effect"
    assert not newest.cleaned
    assert newest.master is not None
    assert newest.master.command == "other"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\xff\xff", "no Assignment"),
        (b"x" * ((1 << 20) + 1), "at most"),
        (fleet_pb2.Assignment(workload_id="another").SerializeToString(), "the key says"),
        (fleet_pb2.Assignment(workload_id=ID).SerializeToString(), "needs a revision"),
        (message(kind=0).SerializeToString(), "does not know how to run"),
    ],
)
def test_a_record_that_is_no_assignment_is_bad_and_says_whose_it_is(value: bytes, said: str) -> None:
    with pytest.raises(BadRecord, match=said) as raised:
        decode.assignment(ID, value, {}, LOCAL)
    assert raised.value.workload_id == ID


def test_a_tombstone_says_what_it_releases() -> None:
    headers = {"generation": b"1", "attempt": b"2", "epoch": b"3", "grace": b"1000", "reason": b"\xff"}
    release = decode.release(ID, headers)
    assert (release.key, release.epoch, release.grace, release.reason) == (
        (1, 2),
        3,
        300.0,
        "\N{REPLACEMENT CHARACTER}",
    )
    with pytest.raises(BadRecord, match="a tombstone needs"):
        decode.release(ID, {"generation": b"x"})


def told(report: Report) -> Any:
    (sent,) = Records("c", "me", 1, clock=lambda: 2_000_000_000).of(report)
    return sent


STATUS = Status(
    "name",
    ID,
    3,
    4,
    "worker",
    1,
    2,
    "n",
    State.GONE,
    137,
    Failure.OURS,
    1.5,
    2.5,
    "no-process",
    "said \0",
    ("http://x",),
)


def test_a_status_is_told_whole() -> None:
    sent = told(StatusReport(STATUS, ("http://svc",), "image had no effect", b"last\xff words"))
    assert isinstance(sent, agent_pb2.ReplicaStatusChanged)
    status = sent.status
    assert (sent.workload_id, sent.generation, sent.attempt, list(sent.endpoints)) == (ID, 3, 4, ["http://svc"])
    assert (status.state, status.failure) == (fleet_pb2.REPLICA_STATE_GONE, fleet_pb2.FAILURE_CLASS_OURS)
    assert (status.exit_code, status.gone_evidence, status.started_at.nanos) == (137, "no-process", 500_000_000)
    assert "\0" not in status.message
    assert status.log_tail.startswith("last")
    assert [(each.type, each.reason.message) for each in sent.conditions] == [("FieldsIgnored", "image had no effect")]
    assert not told(StatusReport(STATUS)).conditions


def test_enumerations_of_the_domain_are_those_of_the_contract() -> None:
    for state in State:
        assert fleet_pb2.ReplicaState.Name(fleet_pb2.ReplicaState.ValueType(state.value)).endswith(state.name)
    for failure in Failure:
        name = fleet_pb2.FailureClass.Name(fleet_pb2.FailureClass.ValueType(failure.value))
        assert name.removeprefix("FAILURE_CLASS_") in {failure.name, "UNSPECIFIED"}
    for node in NodeState:
        assert fleet_pb2.NodeState.Name(fleet_pb2.NodeState.ValueType(node.value)).endswith(node.name)


def test_an_inventory_is_told_in_full_or_as_a_difference() -> None:
    node = Node(
        "n",
        "uid",
        "boot",
        NodeState.DRAINING,
        1000,
        2000,
        drain_deadline=10.0,
        labels=(("a", "b"),),
        taints=(Taint("k", "v", "NoSchedule"),),
        foreign=Foreign(1, 2, ("GPU-1",)),
        devices=(Device("GPU-1", "m", 5, 0, slices=(Slice("1g.5gb", 1),)),),
    )
    fleet = Fleet(Profile(backend="local"), (node,))
    full = told(InventoryReport(fleet)).inventory
    assert (full.full, full.sequence, full.profile.backend) == (True, 1, "local")
    assert full.nodes[0].devices[0].slices[0].start == 1
    assert full.nodes[0].drain_deadline.seconds == 10
    delta = told(InventoryReport(fleet, Difference((node,), ("gone",)))).inventory
    assert (delta.full, list(delta.removed_nodes), delta.nodes[0].name) == (False, ["gone"], "n")


def test_everything_else_that_is_told() -> None:
    held = told(HeldReport((Held(ID, 1, 2, 3, (STATUS,)),), 9))
    assert (held.assignments[0].replicas[0].name, held.highest_epoch) == ("name", 9)
    refused = told(RefusalReport(Refuse(ID, 1, 2, RefusalCode.FOREIGN_TAKEN, "why", "n", "worker", 3, 1)))
    assert (refused.reason.code, refused.node, refused.retry_after_seconds) == ("ForeignTaken", "n", 30)
    assert (refused.scope, refused.role, refused.index, refused.k) == (agent_pb2.REFUSAL_SCOPE_NODE, "worker", 3, 1)
    refused = told(RefusalReport(Refuse(ID, 1, 2, RefusalCode.NAME_CONFLICT, "why")))
    assert (refused.scope, refused.retry_after_seconds) == (agent_pb2.REFUSAL_SCOPE_CLUSTER, 0)
    assert told(BeatReport(0.0)).backend == agent_pb2.BACKEND_HEALTH_OK
    assert told(BeatReport(0.0)).dead_man_seconds == 0
    assert told(BeatReport(0.0, dead_man=840.2)).dead_man_seconds == 841, "never less than a supervisor waits"
    assert told(BeatReport(0.0, healthy=False)).backend == agent_pb2.BACKEND_HEALTH_UNREACHABLE
    used = Sample(ID, 1, 2, "r", "p", "w", 15.0, 30.0, 7000, ("GPU-1",))
    sampled = told(SampleReport((used, used)))
    assert (sampled.cluster, len(sampled.samples), sampled.samples[0]) == ("c", 2, sampled.samples[1])
    sample = sampled.samples[0]
    assert (getattr(sample, "from").seconds, sample.to.seconds, sample.gpu_charge) == (15, 30, 7000)
    letter = told(DeadLetter("why", "t", 0, 5, b"k", b"v" * 100_000, (("h", b"x"),)))
    assert isinstance(letter, dead_letter_pb2.DeadLettered)
    assert letter.id
    assert (letter.offset, len(letter.value), letter.headers[0].name) == (5, 64 << 10, "h")
