"""The muster command over a real gRPC server: what people see of workloads, fleet and projects."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from muster.api.v1 import usage_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_kernel.quantities import GPU
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

WIDTH = 80


def _ago(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC) - timedelta(seconds=seconds))
    return stamp


def test_the_list_fits_a_terminal(muster: Command, world: World) -> None:
    replica = workload_pb2.Replica(role="worker", state="READY")
    phase = workload_pb2.PHASE_INITIALIZING
    world.add("bert-large-7", cluster="north", phase=phase, replicas=[replica], created_at=_ago(720))
    ran = muster("list")
    assert ran.code == 0
    heading, row = ran.out.splitlines()
    assert heading.split() == ["NAME", "PROJECT", "KIND", "PHASE", "PLACE", "READY", "AGE"]
    assert row.split() == ["bert-large-7", "team-a", "Training", "Initializing", "north", "1/1", "12m"]
    assert all(len(line) <= WIDTH for line in ran.out.splitlines())


def test_the_list_for_programs(muster: Command, world: World) -> None:
    world.add("bert", phase=workload_pb2.PHASE_RUNNING, created_at=_ago(5))
    (told,) = json.loads(muster("list", "--json").out)
    assert told["phase"] == "Running"
    assert told["generation"] == 1
    assert told["replicas"] == []
    assert told["createdAt"].endswith("Z")
    assert "effectiveSpec" not in told


def test_an_empty_list(muster: Command) -> None:
    assert "no workloads" in muster("list").out
    assert json.loads(muster("list", "--json").out) == []


def test_get_as_yaml(muster: Command, world: World) -> None:
    world.add("bert")
    assert muster("get", "bert", "-o", "yaml").out == "metadata:\n  name: bert\n"
    assert json.loads(muster("get", "bert", "-o", "json").out)["name"] == "bert"


def test_describe_tells_everything(muster: Command, world: World) -> None:
    world.add(
        "bert",
        phase=workload_pb2.PHASE_RUNNING,
        reason=workload_pb2.Reason(code="AllReady", message="all of its replicas are ready"),
        cluster="north",
        node_pool="default",
        desired=workload_pb2.DESIRED_PHASE_RUNNING,
        owner=workload_pb2.Owner(subject="local"),
        origin=workload_pb2.ORIGIN_YAML,
        spec=workload_pb2.WorkloadSpec(gpu_portion_request=0.5, cpu="2", memory="4Gi"),
        replicas=[
            workload_pb2.Replica(role="worker", index=0, node="north-0", state="READY", devices=["GPU-1: 0.5"]),
            workload_pb2.Replica(role="worker", index=1, node="north-1", state="FAILED", exit_code=3),
        ],
        endpoints=["http://127.0.0.1:40123"],
        conditions=[
            workload_pb2.Condition(type="ImageIgnored", status=True, reason=workload_pb2.Reason(message="local"))
        ],
        created_at=_ago(100),
        started_at=_ago(90),
    )
    out = muster("describe", "bert").out
    assert out.startswith("bert is Running: all of its replicas are ready\n")
    assert "0.5 GPU, 2 CPU, 4Gi memory" in out
    assert "north, node pool default" in out
    assert "local by yaml" in out
    assert "worker-1" in out
    assert "FAILED" in out
    assert "http://127.0.0.1:40123" in out
    assert "ImageIgnored" in out
    assert "90 s" in out
    assert all(len(line) <= WIDTH for line in out.splitlines())


def test_what_has_ended_ran_somewhere(muster: Command, world: World) -> None:
    world.add("bert", phase=workload_pb2.PHASE_COMPLETED, cluster="north")
    assert "Ran in" in muster("describe", "bert").out
    assert "Runs in" not in muster("describe", "bert").out


def test_logs_of_several_replicas_are_told_apart(muster: Command, world: World) -> None:
    world.add("bert")
    world.log = [("worker-0", b"one\ntw"), ("worker-1", b"uno\n"), ("worker-0", b"o\nend")]
    out = muster("logs", "bert").out
    assert out == "worker-0  one\nworker-1  uno\nworker-0  two\nworker-0  end\n"


def test_the_log_of_one_replica_is_as_it_was_written(muster: Command, world: World) -> None:
    world.add("bert")
    world.log = [("worker-0", b"one\ntwo\n")]
    assert muster("logs", "bert", "--replica", "worker-0").out == "one\ntwo\n"
    assert json.loads(muster("logs", "bert", "--json").out) == {"replica": "worker-0", "text": "one\ntwo\n"}


def test_a_log_since_a_moment_is_asked_for_by_time(muster: Command, world: World) -> None:
    world.add("bert")
    muster("logs", "bert", "--since", "5m")
    muster("logs", "bert", "--since", "2026-01-31T12:00:00+00:00")
    ago, then = (request.since for name, request in world.calls if name == "StreamLogs")
    assert 299 < time.time() - ago.seconds < 330
    assert then.ToDatetime() == datetime(2026, 1, 31, 12)  # noqa: DTZ001 - protobuf's is UTC
    ran = muster("logs", "bert", "--since", "yesterday")
    assert (ran.code, ran.err) == (
        2,
        "muster: --since yesterday: 30s, 5m, 12h, 7d or a time such as 2026-01-31T12:00 is expected\n",
    )


def test_suspend_and_delete(muster: Command, world: World) -> None:
    world.add("bert")
    assert muster("suspend", "bert").out == "bert: Stopped\n"
    assert muster("resume", "bert").out == "bert: Running\n"
    assert muster("delete", "bert", "--wait").out == "bert: Deleted\n"


def test_a_wish_that_is_not_granted_yet(muster: Command, world: World) -> None:
    world.add("bert", phase=workload_pb2.PHASE_PENDING)
    world.lazy = True
    assert muster("suspend", "bert").out == "bert: suspension requested (it is Pending)\n"
    assert muster("resume", "bert").out == "bert: resumption requested (it is Pending)\n"
    assert muster("delete", "bert").out == "bert: deletion requested (it is Pending)\n"


def test_projects(muster: Command, world: World) -> None:
    heading, row = muster("projects").out.splitlines()
    assert heading.split()[:4] == ["NAME", "DEPARTMENT", "POOL", "DESERVED"]
    assert row.split()[:4] == ["team-a", "default", "default", "4.5"]
    made = muster("projects", "create", "team-b", "--quota", "h100=2.5", "--quota", "1")
    assert "2.5 GPUs in h100, 1 GPU in default" in made.out
    assert muster("projects", "create", "team-b", "--quota", "h100=-1").code == 2
    assert "deserves 8 GPUs in h100" in muster("projects", "set-quota", "team-b", "8", "--pool", "h100").out


def test_shares_stand_beside_what_is_held(muster: Command, world: World) -> None:
    assert "nothing waits" in muster("projects", "shares").out
    held, asked = fleet_pb2.Amount(gpu=6 * GPU), fleet_pb2.Amount(gpu=9 * GPU)
    for pool, waiting in (("h100", 0), ("a100", 2)):
        account = fleet_pb2.Account(project="vision", node_pool=pool, allocated=held, requested=asked)
        account.pending_workloads = waiting
        world.accounts.append(account)
    world.accounts[0].gpu_fair, world.accounts[0].gpu_deserved = 8 * GPU, 4 * GPU
    assert [line.split() for line in muster("projects", "shares", "vision").out.splitlines()] == [
        ["POOL", "PROJECT", "DESERVED", "FAIR", "SHARE", "HELD", "WANTED", "WAITING"],
        ["a100", "vision", "-", "-", "6", "9", "2"],
        ["h100", "vision", "4", "8", "6", "9", "0"],
    ]
    first, last = world.asked("ListAccounts")
    assert (list(first.projects), list(last.projects), last.with_shares) == ([], ["vision"], True)
    assert muster("projects", "shares", "vision", "nope").code == 3, "not as if the project had no work"
    assert muster("projects", "create", "idle", "--quota", "1").code == 0
    assert muster("projects", "shares", "idle").code == 0


def test_what_quotas_promise_and_cannot_keep_stands_once_below_the_shares(muster: Command, world: World) -> None:
    said = ["department d may hold 8 GPUs"], ["department d may hold 8 GPUs", "vision holds 9 GPUs"]
    for at, each in enumerate(said):
        world.accounts.append(fleet_pb2.Account(project=f"p{at}", node_pool="default", warnings=each))
    *_, above, first, last = muster("projects", "shares").out.splitlines()
    assert (above, first, last) == ("", "default: department d may hold 8 GPUs", "default: vision holds 9 GPUs")


def test_the_fleet(muster: Command, world: World) -> None:
    cluster = fleet_pb2.Cluster(id="north", state=fleet_pb2.CLUSTER_STATE_READY, nodes=2, devices=8, free_devices=6.5)
    world.clusters.append(cluster)
    device = fleet_pb2.DeviceUse(uuid="GPU-1", free_milli=500, workloads=["bert"])
    world.nodes.append(
        fleet_pb2.NodeView(
            cluster="north",
            name="north-0",
            pool="default",
            state=fleet_pb2.NODE_STATE_READY,
            devices=[device],
            cpu_milli=8000,
        )
    )
    assert muster("clusters").out.splitlines()[1].split()[:5] == ["north", "Ready", "2", "8", "6.5"]
    nodes = muster("nodes", "--cluster", "north").out
    assert "0.5/1" in nodes
    assert "bert" in nodes
    assert all(len(line) <= WIDTH for line in nodes.splitlines())
    assert "cluster west: Registered" in muster("clusters", "register", "west").out
    assert "3 replicas were declared gone" in muster("clusters", "adopt", "west", "--instance", "i-2").out
    assert not world.calls[-1][1].force
    muster("clusters", "adopt", "west", "--instance", "i-2", "--force")
    assert world.calls[-1][1].force
    assert "2 replicas were declared gone" in muster("nodes", "force-gone", "north", "north-0").out


def test_usage(muster: Command, world: World) -> None:
    world.usage.append(usage_pb2.WorkloadUsage(name="bert", project="team-a", gpu_seconds=7200.5))
    assert "7,200.5" in muster("usage").out
    assert json.loads(muster("usage", "--json").out)[0]["gpuSeconds"] == 7200.5


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("imagePulPolicy", "imagePulPolicy is neither a kind of workload nor a field; did you mean imagePullPolicy?"),
        ("spec.imagePulPolicy.value", "did you mean imagePullPolicy.value?"),
        ("trainning", "trainning is not a kind of workload; did you mean TrainingWorkload?"),
        ("gpu.valu", "gpu has no member valu; it has no members"),
        ("bogus", "bogus is neither a kind of workload nor a field: `muster explain` lists the kinds"),
    ],
)
def test_explain_helps_with_what_is_not_there(muster: Command, path: str, answer: str) -> None:
    ran = muster("explain", path, server=False)
    assert ran.code == 3
    assert answer in ran.err


def test_explain_knows_a_kind_by_the_first_word_of_its_name(muster: Command) -> None:
    assert "KIND:        InteractiveWorkload" in muster("explain", "Interactive", server=False).out


def test_explain_needs_no_control_plane(muster: Command) -> None:
    ran = muster("explain", "gpu", server=False)
    assert ran.code == 0
    assert "spec.gpu" in ran.out
    assert "TrainingWorkload" in muster("explain", server=False).out
    assert "ColossalAIJob" in muster("explain", server=False).out
    assert "colossalaijob.spec.torchConfig.script" in muster("explain", "torchConfig.script", server=False).out


def test_watch_for_programs_is_a_line_an_item(muster: Command, world: World) -> None:
    gone = world.add("bert", phase=workload_pb2.PHASE_DELETED)
    ran = muster("watch", gone.id, "--json")
    assert ran.code == 0
    (line,) = ran.out.splitlines()
    assert json.loads(line)["kind"] == "snapshot"
