"""Records that nobody sane would write: each is refused with a reason or taken, and the books hold afterwards."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.events.v1 import agent_pb2, policy_pb2, submission_pb2, telemetry_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import placement_pb2, workload_pb2
from muster_chassis.events import Event, Origin, Reject
from muster_chassis.topics import reports
from muster_kernel.quantities import GPU
from muster_scheduler import stream
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.fleet.nodes import Mode
from muster_scheduler.domain.state import State
from tests.support.fleets import START, workload_id

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = st.sampled_from([0, 0, 1, 1, 2, 3, 16])
NUMBERS = SMALL | st.sampled_from([1000, 7000, 1 << 31, (1 << 32) - 1])
LARGE = st.sampled_from([1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
HUGE = st.one_of(SMALL, SMALL, SMALL, NUMBERS, LARGE)
ODD = st.sampled_from(["", "a", "b", "\x00", "\ud7ff", "x" * 400])
NAMES = st.one_of(st.sampled_from(["worker", "master", "launcher"]), ODD)
POOLS = st.sampled_from(["", "default", "default", "default", "other"])
DEVICES = st.sampled_from(["", "GPU-1", "GPU-2", "GPU-3"])
MODELS = st.sampled_from(["", "A100-80GB", "A30-24GB", "none"])
PROFILES = st.sampled_from(
    ["", "", "", "", "1g.10gb", "7g.80gb", "1g.10gb+me", "g.", "9g.9gb", "\N{SUPERSCRIPT TWO}g.1gb"]
)
KEYS = st.dictionaries(st.sampled_from(["run.ai/type", "rack", "nic", "ephemeral-storage"]), NAMES, max_size=2)
EXTENDED = st.dictionaries(st.sampled_from(["nic", "ephemeral-storage", ""]), HUGE, max_size=1)
TIMES = st.sampled_from([0, -1, 1_700_000_000, 1_700_000_100, 1 << 33, -(1 << 62), (1 << 62)]).map(
    lambda s: Timestamp(seconds=s)
)
KNOWN = st.integers(1, 3).map(workload_id)
WORKLOADS = st.one_of(KNOWN, KNOWN, KNOWN, st.sampled_from(["", "nobody", workload_id(1).upper()]))
CLUSTERS = st.sampled_from(["c1", "c2"])

SLICES = st.lists(st.builds(fleet_pb2.MigSlice, profile=PROFILES, start=NUMBERS, uuid=NAMES), max_size=3)
CARDS = st.builds(
    fleet_pb2.Device,
    uuid=DEVICES,
    model=MODELS,
    memory_bytes=HUGE,
    healthy=st.booleans(),
    mig_enabled=st.booleans(),
    slices=SLICES,
    slot=NUMBERS,
)
RESOURCES = st.sampled_from(["", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb", "a/\x00"])
GROUPS = st.builds(
    fleet_pb2.SlotGroup,
    resource=RESOURCES,
    mig_profile=st.sampled_from(["", "1g.5gb", "3g.20gb", "1g.5gb+me", "9g.1gb", "no profile", "g.gb"]),
    model=st.sampled_from(["", "A100-40GB", "A30-24GB", "X"]),
    memory_bytes=HUGE,
    count=SMALL,
)
FOREIGN = st.builds(
    fleet_pb2.Foreign,
    cpu_milli=HUGE,
    memory_bytes=HUGE,
    devices=st.lists(DEVICES, max_size=2),
    slots=st.lists(st.builds(fleet_pb2.SlotCount, resource=RESOURCES, count=NUMBERS), max_size=3),
    extended=EXTENDED,
)
TAINTS = st.builds(
    fleet_pb2.Taint, key=NAMES, value=NAMES, effect=st.sampled_from(["", "NoSchedule", "NoExecute", "Odd"])
)
NODES = st.builds(
    fleet_pb2.Node,
    name=st.sampled_from(["n1", "n1", "n2", "", "\x00"]),
    state=st.integers(0, 5),
    drain_deadline=st.none() | TIMES,
    labels=KEYS,
    taints=st.lists(TAINTS, max_size=2),
    cpu_milli=HUGE,
    memory_bytes=HUGE,
    foreign=FOREIGN,
    devices=st.lists(CARDS, max_size=20),
    slots=st.lists(GROUPS, max_size=4),
    pool=POOLS,
    extended=EXTENDED,
)
ORDERS = st.builds(
    agent_pb2.ReportOrder, cluster=CLUSTERS, instance=st.just("i"), start=SMALL, sequence=HUGE, observed_at=TIMES
)
PROFILE = st.builds(
    fleet_pb2.ClusterProfile,
    identity=st.integers(0, 2),
    portions=st.booleans(),
    memory_requests=st.booleans(),
    mig=st.integers(0, 3),
)
INVENTORY = st.builds(
    fleet_pb2.Inventory,
    full=st.booleans(),
    sequence=NUMBERS,
    profile=st.none() | PROFILE,
    nodes=st.lists(NODES, max_size=4),
    removed_nodes=st.lists(NAMES, max_size=2),
)
SHARES = st.builds(
    fleet_pb2.DeviceShare, device=st.sampled_from([b"", b"GPU-1", b"\xff" * 16, b"\xff"]), portion_milli=NUMBERS
)
STATUSES = st.builds(
    fleet_pb2.ReplicaStatus,
    role=NAMES,
    index=SMALL,
    k=SMALL,
    state=st.integers(0, 7),
    exit_code=st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    failure=st.integers(0, 6),
    devices=st.lists(SHARES, max_size=2),
    started_at=st.none() | TIMES,
)
ASKED = st.builds(
    workload_pb2.ResourceRequest,
    role=NAMES,
    count=SMALL | st.sampled_from([70_000, (1 << 32) - 1]),
    cpu_milli=HUGE,
    memory_bytes=HUGE,
    gpu_devices=NUMBERS,
    gpu_portion_milli=st.sampled_from([0, 0, 0, 1, 10, 500, 999, 1000, 5000]),
    gpu_memory_bytes=st.sampled_from([0, 0, 0, 1 << 30]) | HUGE,
    mig_profile=PROFILES,
    extended=EXTENDED,
)
TOLERATIONS = st.builds(
    placement_pb2.Toleration,
    label=NAMES,
    key=NAMES,
    value=NAMES,
    operator=st.integers(0, 2),
    effect=st.integers(0, 3),
    seconds=st.none() | NUMBERS,
)
SPECS = st.builds(
    workload_pb2.WorkloadSpec,
    kind=st.integers(0, 4),
    node_type=NAMES,
    pod_affinity=st.booleans(),
    pod_affinity_topology=NAMES,
    pod_affinity_scheduling_rule=st.integers(0, 2),
    pod_anti_affinity=st.booleans(),
    pod_anti_affinity_topology=NAMES,
    pod_anti_affinity_scheduling_rule=st.integers(0, 2),
    tolerations=st.lists(TOLERATIONS, max_size=2),
    preferred_clusters=st.none() | st.builds(workload_pb2.StringList, values=st.lists(CLUSTERS | ODD, max_size=3)),
    data_label=st.sampled_from(["", "rack", "rack=a", "=", "\x00=\x00"]) | ODD,
    backoff_limit=st.none() | NUMBERS,
    auto_deletion_seconds=st.none() | NUMBERS,
    completions=st.none() | NUMBERS,
    parallelism=st.none() | NUMBERS,
)
ADMITTED = st.builds(
    policy_pb2.WorkloadAdmitted,
    workload_id=WORKLOADS,
    generation=HUGE,
    effective_spec=SPECS,
    requests=st.lists(ASKED, max_size=3),
    admissible_clusters=st.lists(CLUSTERS, max_size=2),
    project=st.sampled_from(["p", "p", "p", "nobody", ""]),
    node_pools=st.lists(POOLS, max_size=3),
    preemptible=st.booleans(),
    priority=NUMBERS,
    submitted_at=TIMES,
)
RULES = st.builds(
    tenancy_pb2.SchedulingRules,
    training_time_limit_seconds=st.none() | HUGE,
    interactive_time_limit_seconds=st.none() | HUGE,
    training_idle_limit_seconds=st.none() | HUGE,
)
QUOTAS = st.builds(
    tenancy_pb2.PoolQuota,
    node_pool=POOLS,
    gpu_deserved=HUGE,
    gpu_limit=st.none() | HUGE,
    over_quota_weight_milli=NUMBERS,
    cpu_milli_limit=st.none() | HUGE,
)
PROJECTS = st.builds(
    tenancy_pb2.Project,
    name=st.sampled_from(["p", "d", ""]),
    department=st.sampled_from(["d", "p", ""]),
    quotas=st.lists(QUOTAS, max_size=2),
    rules=st.none() | RULES,
    version=HUGE,
)
DEPARTMENTS = st.builds(
    tenancy_pb2.Department,
    name=st.sampled_from(["d", "p", ""]),
    quotas=st.lists(QUOTAS, max_size=2),
    rules=st.none() | RULES,
    version=HUGE,
)
HELD = st.builds(
    agent_pb2.HeldAssignment,
    workload_id=WORKLOADS,
    generation=NUMBERS,
    attempt=SMALL,
    replicas=st.lists(STATUSES, max_size=2),
)


def genuine(message: agent_pb2.InventoryPartReported) -> agent_pb2.InventoryPartReported:
    """The same with the digest of its one part, so that it is taken."""
    message.digest = hashlib.sha256(hashlib.sha256(message.content).digest()).digest()
    return message


PARTS = st.builds(agent_pb2.SnapshotPart, snapshot=HUGE, number=SMALL, count=SMALL)
IN_PARTS = st.builds(
    agent_pb2.InventoryPartReported,
    order=ORDERS,
    part=PARTS,
    digest=st.sampled_from([bytes(32), b"\1" * 32, b""]),
    content=INVENTORY.map(lambda inventory: inventory.SerializeToString()) | st.binary(max_size=20),
).map(lambda message: genuine(message) if message.part.count == 1 else message)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    ADMITTED,
    ADMITTED,
    st.builds(agent_pb2.InventoryReported, order=ORDERS, inventory=INVENTORY),
    st.builds(agent_pb2.InventoryReported, order=ORDERS, inventory=INVENTORY),
    st.builds(
        agent_pb2.ReplicaStatusChanged,
        order=ORDERS,
        workload_id=WORKLOADS,
        generation=NUMBERS,
        attempt=SMALL,
        status=STATUSES,
    ),
    IN_PARTS,
    st.builds(
        agent_pb2.AssignmentsHeld,
        order=ORDERS,
        assignments=st.lists(HELD, max_size=2),
        highest_epoch=HUGE,
        part=st.none() | PARTS,
    ),
    st.builds(agent_pb2.Heartbeat, order=ORDERS),
    st.builds(submission_pb2.ProjectChanged, project=PROJECTS),
    st.builds(submission_pb2.DepartmentChanged, department=DEPARTMENTS),
    st.builds(telemetry_pb2.IdleSince, workload_id=WORKLOADS, since=st.none() | TIMES),
    st.builds(telemetry_pb2.ScaleAdvised, workload_id=WORKLOADS, replicas=NUMBERS),
    st.builds(submission_pb2.SuspendRequested, workload_id=WORKLOADS),
    st.builds(submission_pb2.DeletionRequested, workload_id=WORKLOADS),
)

BEGINNING = agent_pb2.InventoryReported(
    order=agent_pb2.ReportOrder(cluster="c1", instance="i", start=1, sequence=1),
    inventory=fleet_pb2.Inventory(
        full=True,
        sequence=1,
        profile=fleet_pb2.ClusterProfile(
            identity=fleet_pb2.DEVICE_IDENTITY_UUID,
            portions=True,
            memory_requests=True,
            mig=fleet_pb2.MIG_SUPPORT_DYNAMIC,
        ),
        nodes=[
            fleet_pb2.Node(
                name="n1",
                state=fleet_pb2.NODE_STATE_READY,
                cpu_milli=64_000,
                memory_bytes=1 << 40,
                devices=[
                    fleet_pb2.Device(uuid=f"GPU-{n}", model="A100-80GB", memory_bytes=80 << 30, healthy=True, slot=n)
                    for n in range(1, 5)
                ],
            )
        ],
    ),
)


def record(message: Any) -> Event:
    cluster = message.order.cluster if "order" in message.DESCRIPTOR.fields_by_name else "c1"
    origin = Origin(reports(cluster).name, 0, 1, b"k", message.SerializeToString(), ())
    return Event("id", message.DESCRIPTOR.full_name, "s", "a", 0, NOW, message, origin, None)


def meaning(message: Message) -> events.Event | None:
    """What the record means; None where it is refused, which is an answer as well."""
    try:
        return stream.translate(record(message))
    except Reject:
        return None


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(MESSAGES, st.sampled_from([0, 1, 5, -400, 400])), max_size=12))
def test_whatever_comes_is_refused_or_taken_and_the_books_hold(records: list[tuple[Message, int]]) -> None:
    state = State()
    state.begin(START)
    for cluster in ("c1", "c2"):
        state.apply(events.ClusterRegistered(cluster))
    beginning = meaning(BEGINNING)
    assert beginning is not None
    state.apply(beginning)
    quota = {pool: Quota(8 * GPU) for pool in ("default", "other")}
    state.apply(events.ProjectChanged(Project("p", "d", quota, 0)))
    state.commit()
    now = START
    for message, seconds in records:
        now += seconds * SECOND  # clocks jump back as well
        state.begin(now)
        event = meaning(message)
        if event is not None:
            state.apply(event)
        state.propose()
        state.plan()
        state.commit()
        state.check()
        assert_open_once(state)


def assert_open_once(state: State) -> None:
    """No card is open on two nodes, whatever was reported."""
    cards = [device for node in state.world.inventory.nodes.values() for device in node.devices]
    names = [device.uuid for device in cards if device.mode is not Mode.UNHEALTHY]
    assert len(names) == len(set(names))


def test_the_records_of_this_module_mean_something() -> None:
    """So that a refusal of everything would not pass for robustness."""
    asked = workload_pb2.ResourceRequest(role="worker", count=1, cpu_milli=1, gpu_devices=1)
    admitted = policy_pb2.WorkloadAdmitted(
        workload_id=workload_id(1),
        generation=1,
        requests=[asked],
        effective_spec=workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING),
        project="p",
    )
    assert isinstance(meaning(admitted), events.Admitted)
