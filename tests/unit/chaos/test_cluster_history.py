"""The history of a cluster's pods tells of every planted fault, and of none where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes import marks
from tests.chaos.checker import Entry, History, Verdict, judge
from tests.chaos.cluster_history import (
    Call,
    Version,
    disagreements,
    disturbed,
    entries_of,
    incarnations_overlap,
    made_twice,
    started_again,
    stuck,
    unexpected,
)

GPUS = 8
NAME = "w-a-g1-a0-worker-0-r0"


def pod(
    name: str = NAME,
    *,
    uid: str = "u",
    node: str = "n-0",
    phase: str = "Pending",
    code: int | None = None,
    gpus: int = 1,
) -> dict[str, Any]:
    """A pod as etcd has it."""
    generation, attempt = name.split("-")[2:4]
    labels = {marks.WORKLOAD: name.split("-")[1], marks.RUN: f"{generation}-{attempt}"}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    status: dict[str, Any] = {"phase": phase}
    if code is not None:
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": code}}}]
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "uid": uid, "labels": labels}, "spec": spec, "status": status}


def versions(*steps: tuple[str, dict[str, Any] | None]) -> list[Version]:
    return [Version(at, f"runai-chaos/{name}", value) for at, (name, value) in enumerate(steps, start=1)]


def life(name: str = NAME, *, code: int = 0, gpus: int = 1) -> list[tuple[str, dict[str, Any] | None]]:
    """A pod that is made, runs, ends and goes."""
    ended = pod(name, phase="Failed" if code else "Succeeded", code=code, gpus=gpus)
    return [(name, pod(name, gpus=gpus)), (name, pod(name, phase="Running", gpus=gpus)), (name, ended), (name, None)]


def verdict(entries: list[Entry], phase: str = "Completed") -> Verdict:
    return judge(History(entries, frozenset({"a"}), {"a": phase}))


def test_a_life_is_its_start_its_exit_and_its_end() -> None:
    found = entries_of(versions(*life()), GPUS)
    assert [(each.event, each.at_ns, each.code) for each in found] == [
        ("start", 1, None),
        ("exit", 3, 0),
        ("gone", 3, None),
    ]
    assert verdict(found).clean


def test_pods_of_others_and_pods_without_a_node_start_nothing() -> None:
    other = pod()
    del other["metadata"]["labels"]
    assert entries_of(versions((NAME, other)), GPUS) == []
    assert entries_of(versions((NAME, pod(node="")), (NAME, None)), GPUS) == []


def test_a_pod_that_is_made_again_under_its_name_is_a_second_start() -> None:
    again = pod(uid="another", phase="Succeeded", code=0)
    found = entries_of(versions(*life(), (NAME, again)), GPUS)
    assert verdict(found).duplicate_starts


def test_a_pod_that_takes_the_place_of_another_unseen_ends_that() -> None:
    found = entries_of(versions((NAME, pod()), (NAME, pod(uid="another", phase="Succeeded", code=0))), GPUS)
    assert [each.event for each in found] == ["start", "gone", "start", "exit", "gone"]


def test_a_pod_that_never_ends_is_left_over() -> None:
    assert verdict(entries_of(versions((NAME, pod(phase="Running"))), GPUS), "Failed").left_over


def test_two_attempts_at_once_are_found() -> None:
    later = NAME.replace("-a0-", "-a1-")
    both = versions((NAME, pod()), *life(later), (NAME, pod(phase="Failed", code=143)), (NAME, None))
    assert verdict(entries_of(both, GPUS)).duplicate_starts


@pytest.mark.parametrize(("second", "over"), [(3, False), (4, True)])
def test_a_node_that_is_given_more_than_it_has_is_found(second: int, *, over: bool) -> None:
    other = NAME.replace("w-a-", "w-b-")
    both = versions((NAME, pod(gpus=5)), *life(other, gpus=second), (NAME, pod(phase="Succeeded", code=0, gpus=5)))
    assert bool(verdict(entries_of(both, GPUS)).double_allocated) is over


def test_what_is_called_completed_without_an_exit_0_is_lost() -> None:
    assert verdict(entries_of(versions(*life(code=3)), GPUS)).lost
    assert not verdict(entries_of(versions(*life(code=3)), GPUS), "Failed").lost


def test_a_replica_that_was_accepted_twice_is_found() -> None:
    once = Call(NAME, 201)
    assert made_twice([once, Call(NAME, 409), Call("other", 201)]) == []
    assert made_twice([once, Call(NAME, 201)]) == [f"a pod {NAME} was accepted 2 times"]


def test_the_audit_log_and_etcd_have_to_tell_of_the_same_pods() -> None:
    accepted = Call(NAME, 201)
    assert disagreements([accepted], versions(*life())) == []
    assert disagreements([replace(accepted, code=0)], versions(*life())) == []  # killed before it had answered
    assert disagreements([accepted], []) == [f"etcd has never had pod {NAME}, which was accepted"]
    assert disagreements([], versions(*life())) == [f"etcd has had pod {NAME}, and no call asked for it"]


def test_an_object_that_a_finalizer_of_ours_holds_is_stuck() -> None:
    metadata = {"name": "x", "namespace": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    held = {"kind": "Pod", "metadata": {**metadata, "finalizers": [marks.GONE]}}
    foreign = {"kind": "Pod", "metadata": {**metadata, "finalizers": ["example.com/theirs"]}}
    staying = {"kind": "Pod", "metadata": {"name": "x", "namespace": "n", "finalizers": [marks.GONE]}}
    assert stuck([held, foreign, staying]) == [f"Pod n/x is held by {marks.GONE}"]


def test_a_pod_that_is_deleted_before_it_has_ended_is_disturbed() -> None:
    deleted = pod(phase="Running")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended = {**pod(phase="Failed", code=143), "metadata": deleted["metadata"]}
    stopped = versions((NAME, pod(phase="Running")), (NAME, deleted), (NAME, ended), (NAME, None))
    assert disturbed(stopped, set()) == [
        f"pod runai-chaos/{NAME} was deleted before it had ended, and no user had asked for it"
    ]
    assert disturbed(stopped, {"a"}) == []
    assert disturbed(versions(*life()), set()) == []


def test_a_pod_that_goes_while_its_container_runs_is_disturbed() -> None:
    runs = pod(phase="Running")
    runs["status"]["containerStatuses"] = [{"name": "main", "state": {"running": {}}}]
    gone = [f"pod runai-chaos/{NAME} went while its container ran"]
    assert disturbed(versions((NAME, runs), (NAME, None)), {"a"}) == gone
    assert disturbed(versions((NAME, runs), (NAME, pod(uid="another"))), {"a"}) == gone


def test_a_second_attempt_that_no_user_has_asked_for_is_found() -> None:
    twice = entries_of(versions(*life(code=143), *life(NAME.replace("-a0-", "-a1-"))), GPUS)
    assert started_again(twice, set()) == ["a was started 2 times"]
    assert started_again(twice, {"a"}) == []


def test_two_incarnations_of_a_replica_at_the_same_time_are_found() -> None:
    later = NAME.replace("-r0", "-r1")
    both = versions((NAME, pod()), (later, pod(later)), (NAME, pod(phase="Failed", code=1)), (NAME, None))
    assert incarnations_overlap(entries_of(both, GPUS)) == [f"{NAME} and {later} held devices at the same time"]
    in_turn = versions(*life(code=1), *life(later))
    assert incarnations_overlap(entries_of(in_turn, GPUS)) == []


def test_an_end_that_is_not_that_of_its_document_is_found() -> None:
    names = {"1": "training-1", "2": "failing-2", "3": "inference-3"}
    assert unexpected(names, {"1": "Completed", "2": "Failed", "3": "Deleted"}) == []
    assert unexpected(names, {"1": "Failed", "2": "Failed"}) == [
        "inference-3 is unknown; Deleted was to be expected",
        "training-1 is Failed; Completed was to be expected",
    ]
