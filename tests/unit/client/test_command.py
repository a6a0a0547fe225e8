"""The muster command over a real gRPC server: what people see, what programs see, and exit codes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import code_pb2, error_details_pb2

from muster.api.v1 import dead_letters_pb2, usage_pb2, workloads_pb2
from muster.events.v1 import scheduler_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from tests.support.plane_world import Failure, World, bad_request
from tests.unit.client import conftest
from tests.unit.client.conftest import Command

GOOD = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata:
  name: {name}
spec:
  image:
    value: ubuntu
"""
BAD = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata:
  name: train
spec:
  gpu:
    value: 1.5
  imagePulPolicy:
    value: Always
"""
WIDTH = 80


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD.format(name="bert"))
    return str(path)


def test_a_bad_file_is_refused_on_the_spot(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(BAD)
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"{path}:7:12: spec.gpu.value: 1.5 is not a GPU request",
        "  0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices",
        f"{path}:8:3: spec.imagePulPolicy: unknown field; did you mean imagePullPolicy?",
        "2 errors, nothing was submitted",
    ]
    assert not world.calls


def test_a_bad_file_for_programs(muster: Command, tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(BAD)
    ran = muster("submit", "-f", str(path), "--json")
    assert ran.code == 2
    assert not ran.out
    told = json.loads(ran.err)
    assert told["exit"] == 2
    assert told["error"]["code"] == "INVALID_ARGUMENT"
    assert [each["line"] for each in told["error"]["violations"]] == [7, 8]


def test_a_file_that_is_not_there(muster: Command) -> None:
    ran = muster("submit", "-f", "/nowhere.yaml")
    assert ran.code == 2
    assert "/nowhere.yaml: No such file" in ran.err


def test_submit_uses_the_only_project(muster: Command, world: World, good: str) -> None:
    ran = muster("submit", "-f", good)
    assert ran.code == 0
    assert "bert in project team-a: Pending" in ran.out
    assert world.asked("SubmitWorkload")[0].draft.project == "team-a"
    assert world.asked("SubmitWorkload")[0].wait_for_verdict_ms == 5000


def test_submit_without_waiting_for_policy(muster: Command, world: World, good: str) -> None:
    assert muster("submit", "-f", good, "--no-wait", "-p", "team-b").code == 0
    assert world.asked("SubmitWorkload")[0].wait_for_verdict_ms == 0
    assert world.asked("SubmitWorkload")[0].draft.project == "team-b"


def test_several_documents_are_cut_apart(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text("# first\n" + "\n---\n# next\n".join(GOOD.format(name=name) for name in ("a", "b", "c")))
    ran = muster("submit", "-f", str(path), "--json")
    assert ran.code == 0
    assert [each["name"] for each in json.loads(ran.out)] == ["a", "b", "c"]
    sent = [request.draft.yaml for request in world.asked("SubmitWorkload")]
    assert all(text.count("apiVersion") == 1 and "---" not in text for text in sent)
    keys = [request.idempotency_key for request in world.asked("SubmitWorkload")]
    assert len(set(keys)) == 3


def test_one_bad_document_submits_none(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(GOOD.format(name="a") + "---\n" + BAD)
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert f"{path}:15:12: spec.gpu.value" in ran.err
    assert not world.calls


def test_what_the_control_plane_refuses_has_the_files_lines(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(GOOD.format(name="a") + "---\n" + GOOD.format(name="b"))
    located = workloads_pb2.Violation(path="spec.image", message="not allowed", line=6, column=3)
    refusal = Failure(code_pb2.INVALID_ARGUMENT, "1 error", [located])
    first = muster("submit", "-f", str(path))
    assert first.code == 0
    world.fail("SubmitWorkload", refusal, times=2)
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert f"{path}:6:3: spec.image: not allowed" in ran.err
    assert f"{path}:13:3: spec.image: not allowed" in ran.err


def test_what_the_control_plane_refuses_holds_back_that_document_alone(
    muster: Command, world: World, tmp_path: Path
) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(GOOD.format(name="a") + "---\n" + GOOD.format(name="b"))
    taken = bad_request(("spec.name", "team-a has one"))
    world.fail("SubmitWorkload", Failure(code_pb2.ALREADY_EXISTS, "team-a has one", [taken]))
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert ran.err.endswith("1 error, this workload was not submitted\n")
    assert ran.out.startswith("b in project team-a: ")


def test_a_name_that_is_taken(muster: Command, world: World, good: str) -> None:
    taken = bad_request(("spec.name", "team-a has one"))
    world.fail("SubmitWorkload", Failure(code_pb2.ALREADY_EXISTS, "team-a has one", [taken]), times=2)
    ran = muster("submit", "-f", good)
    assert ran.code == 2
    assert ran.err == f"{good}:4:9: metadata.name: team-a has one\n1 error, nothing was submitted\n"
    (told,) = json.loads(muster("submit", "-f", good, "--json").out)
    assert told["error"]["code"] == "ALREADY_EXISTS"


def test_a_project_that_is_not_there(muster: Command, world: World, good: str) -> None:
    world.fail("SubmitWorkload", Failure(code_pb2.NOT_FOUND, "project 'b' does not exist; there are team-a"))
    ran = muster("submit", "-f", good, "-p", "b")
    assert ran.code == 3
    assert ran.err == f"{good}:1:1: project 'b' does not exist; there are team-a\n1 error, nothing was submitted\n"


def test_several_projects_and_none_named(muster: Command, world: World, good: str, tmp_path: Path) -> None:
    world.projects = ["t2", "team-a"]
    trigger = tmp_path / "trigger.yaml"
    trigger.write_text("name: a\ntemplate: b\neventType: c\neventSources: '*'\n")
    for words in (
        ["submit", "-f", good],
        ["templates", "apply", "-f", good],
        ["triggers", "apply", "-f", str(trigger)],
    ):
        ran = muster(*words)
        assert ran.code == 2
        assert "name one with -p: t2, team-a" in ran.err
    assert not world.asked("SubmitWorkload")
    world.projects = ["default", "team-a"]
    assert muster("submit", "-f", good).code == 0
    assert world.asked("SubmitWorkload")[0].draft.project == "default"


def test_a_trigger_with_errors_says_all_of_them(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "trigger.yaml"
    path.write_text("name: 1\neventTyp: a\nwindowSeconds: soon\nenabled: perhaps\nenvironment: {A: 1}\n")
    ran = muster("triggers", "apply", "-f", str(path))
    assert ran.code == 2
    keys = [line.removeprefix(f"{path}: ").partition(":")[0] for line in ran.err.splitlines()[:-1]]
    assert keys == [
        "name",
        "eventTyp",
        "windowSeconds",
        "enabled",
        "environment.A",
        "template",
        "eventType",
        "eventSources",
    ]
    assert ran.err.endswith("\n8 errors, no trigger was applied\n")
    assert not world.calls


@pytest.mark.parametrize("words", [["logs", "bert", "--tail", "-3"], ["list", "--limit", "-1"]])
def test_a_number_below_nothing(muster: Command, world: World, words: list[str]) -> None:
    ran = muster(*words)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert not world.calls


def test_a_mistake_of_the_command_itself(muster: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("not\nforeseen")

    monkeypatch.setattr("muster_client.cli.explaining.say", broken)
    ran = muster("explain", server=False)
    assert ran.code == 1
    assert ran.err.startswith("muster: a mistake of this command itself, please report it: ZeroDivisionError: not for")
    monkeypatch.setenv("MUSTER_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        muster("explain", server=False)


def test_submit_says_how_to_try_again(muster: Command, world: World, good: str) -> None:
    world.fail("SubmitWorkload", Failure(code_pb2.UNAVAILABLE, "restarting"), times=1000)
    ran = muster("submit", "-f", good, "--retry", "0.2")
    assert ran.code == 4
    key = world.asked("SubmitWorkload")[0].idempotency_key.removesuffix("-0")
    assert f"--key {key}" in ran.err
    world.failures.clear()
    assert muster("submit", "-f", good, "--key", key).code == 0
    assert muster("submit", "-f", good, "--key", key).code == 0
    assert len(world.workloads) == 1


def test_a_command_that_waits_for_ever_is_interrupted(
    muster: Command, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "LONGEST", 1.0)
    ran = muster("submit", "-f", good, "--wait")
    assert ran.code == 130


def test_submit_and_wait_for_the_end(muster: Command, world: World, good: str) -> None:
    item, end = workloads_pb2.WATCH_ITEM_KIND_CHANGE, workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT_END
    phases = [workload_pb2.PHASE_RUNNING, workload_pb2.PHASE_FAILED]
    seen = [workload_pb2.Workload(id="x", name="bert", phase=phase, cluster="north") for phase in phases]
    changes = [workloads_pb2.WatchWorkloadsResponse(kind=item, workload=each, cursor="1") for each in seen]
    world.watches.append([changes[0], workloads_pb2.WatchWorkloadsResponse(kind=end, cursor="1"), changes[1]])
    ran = muster("submit", "-f", good, "--wait")
    assert ran.code == 1, "it failed, so the command failed"
    assert "bert: Running in north" in ran.err
    assert "bert: Failed in north" in ran.err


def test_nobody_answers(muster: Command) -> None:
    ran = muster("list", "--server", "127.0.0.1:1", "--retry", "0.1", server=False)
    assert ran.code == 4
    assert "the control plane at 127.0.0.1:1 does not answer" in ran.err
    assert "muster up" in ran.err
    assert ran.err.count("asking again") == 1
    assert not ran.out
    assert "stamina" not in ran.err


def test_no_stack_on_this_machine(muster: Command) -> None:
    ran = muster("list", server=False)
    assert ran.code == 4
    assert "`muster up`" in ran.err


def test_the_stack_on_this_machine_is_found(muster: Command, server: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "stack.json").write_text(json.dumps({"services": {"submission": {"grpc": server}}}))
    assert muster("list", server=False).code == 0


def test_a_service_behind_it_is_down(muster: Command, world: World) -> None:
    workload = world.add("bert")
    detail = error_details_pb2.ErrorInfo(reason="SERVICE_DOWN", metadata={"service": "scheduler"})
    world.fail("Why", Failure(code_pb2.UNAVAILABLE, "no connection", [detail]), times=1000)
    ran = muster("why", workload.id, "--retry", "0.1")
    assert ran.code == 4
    assert "scheduler does not answer: no connection" in ran.err
    world.fail("Why", Failure(code_pb2.UNAVAILABLE, "no connection", [detail]), times=1000)
    told = json.loads(muster("why", workload.id, "--retry", "0.1", "--json").err)
    assert told["error"]["service"] == "scheduler"


def test_not_found(muster: Command) -> None:
    assert muster("get", "nobody").code == 3
    assert muster("get", "nobody", "-p", "team-a").code == 3
    assert muster("explain", "training.spec.gpuu").code == 3


@pytest.mark.parametrize("words", [["submti"], ["submit"], ["get"], ["list", "--nope"], ["get", "x", "-o", "xml"]])
def test_a_wrong_command_line(muster: Command, words: list[str]) -> None:
    ran = muster(*words)
    assert ran.code == 2
    assert ran.err.startswith("muster: ")
    assert not ran.out


def test_a_wrong_command_line_for_programs(muster: Command) -> None:
    told = json.loads(muster("submti", "--json").err)
    assert told["error"]["code"] == "USAGE"


def test_a_name_that_several_projects_have(muster: Command, world: World) -> None:
    world.add("bert", project="team-a")
    world.add("bert", project="team-b")
    ran = muster("get", "bert")
    assert ran.code == 2
    assert "team-a, team-b" in ran.err
    assert muster("get", "bert", "-p", "team-b").code == 0


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
        "",
        "  It would start now if    it asked for at most 4 GPUs on one node, and there",
        "                             was room, or",
        "                           a node with 1 CPU, 1Gi of memory and 6 GPUs joined",
        "                             node pool default.",
    ]


def test_why_of_what_does_not_wait(muster: Command, world: World) -> None:
    world.add("bert", phase=workload_pb2.PHASE_RUNNING)
    world.explanation.CopyFrom(scheduler_pb2.Explanation(name="bert", phase=workload_pb2.PHASE_RUNNING))
    assert muster("why", "bert").out == "bert does not wait: it is Running.\n"


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
    assert "2.5 GPUs in h100, 1 GPUs in default" in made.out
    assert muster("projects", "create", "team-b", "--quota", "h100=-1").code == 2
    assert "deserves 8 GPUs in h100" in muster("projects", "set-quota", "team-b", "8", "--pool", "h100").out


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


LETTER = "0190b0b0-0000-7000-8000-00000000000"


def _letters(world: World, count: int, reason: str = "no message") -> None:
    world.dead_letters.extend(
        dead_letters_pb2.DeadLetter(
            id=f"{LETTER}{number}", service="submission", topic="muster.admissions", attempts=3, reason=reason
        )
        for number in range(count)
    )


def test_dead_letters(muster: Command, world: World) -> None:
    _letters(world, 1)
    ran = muster("dead-letters")
    assert "submission" in ran.out
    assert "no answer from telemetry" in ran.err
    redriven = muster("dead-letters", "redrive", f"{LETTER}0")
    assert redriven.code == 1
    assert "1 handled, 1 failed again" in redriven.out
    assert muster("dead-letters", "redrive").code == 2
    resumed = muster("dead-letters", "resume", "scheduler", "--topic", "muster.admissions")
    assert "scheduler goes on with muster.admissions" in resumed.out


def test_dead_letters_are_shown_up_to_the_limit_and_the_rest_is_counted(muster: Command, world: World) -> None:
    _letters(world, 5)
    some = muster("dead-letters", "list", "--limit", "3")
    assert some.out.count(LETTER) == 3
    assert "2 more" in some.err
    every = muster("dead-letters", "list", "--json")
    assert [each["id"][-1] for each in json.loads(every.out)] == ["0", "1", "2", "3", "4"]
    assert "more" not in every.err


def test_a_dead_letter_is_readable_at_80_columns(muster: Command, world: World) -> None:
    reason = "the value is no muster.events.v1.WorkloadAdmitted: it ends in the middle of the field effective_spec"
    _letters(world, 1, reason)
    lines = muster("dead-letters").out.splitlines()
    assert lines[0].split() == ["ID", "SERVICE", "TRIES", "PARKED", "AGE"]
    assert lines[1].split()[:4] == [f"{LETTER}0", "submission", "3", "0"]
    assert lines[2].startswith("  admissions: the value is no")
    assert " ".join(" ".join(lines[2:]).split()) == f"admissions: {reason}"
    assert max(len(line) for line in lines) <= 80


def test_dead_letters_are_given_up(muster: Command, world: World) -> None:
    _letters(world, 1)
    given_up = muster("dead-letters", "discard", f"{LETTER}0")
    assert (given_up.code, given_up.out) == (0, "1 given up, 2 waited behind and may go on\n")
    half = muster("dead-letters", "discard", f"{LETTER}0", f"{LETTER}7")
    assert half.code == 1
    assert f"{LETTER}7: no dead letter waits under this id" in half.out
    assert muster("dead-letters", "discard").code == 2


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_what_is_no_id_of_a_dead_letter_is_not_asked_for(muster: Command, world: World, verb: str) -> None:
    ran = muster("dead-letters", verb, "foo")
    assert ran.code == 2
    assert "'foo' is no id of a dead letter" in ran.err
    assert not world.asked("RedriveDeadLetters")
    assert not world.asked("DiscardDeadLetters")


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


def test_everything_has_help(muster: Command) -> None:
    out = muster("--help", server=False).out
    for verb in ("submit", "why", "dead-letters", "up", "demo"):
        assert f" {verb} " in out
    assert "--timeout" in muster("submit", "--help", server=False).out
