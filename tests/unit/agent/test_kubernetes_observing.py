"""Pods as replicas: by which evidence they are GONE, and how they ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes import lines, marks
from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.observing import evidence_of, is_refused, observed
from muster_cluster_agent.domain.kubernetes.pods import Pod, pod_of
from muster_cluster_agent.domain.model import Failure, NodeHealth, NodeView, Pattern, State
from muster_cluster_agent.domain.status import failure_of, judge
from tests.support.kubernetes_pods import KEY, OWNER, disruption, ended, pod, raw, running, waiting

UP = NodeView("n-0", NodeHealth.UP, "boot")
OWN_LIMIT = 'Usage of EmptyDir volume "shm" exceeds the limit 1Gi.'
SIDECAR = {"name": "side", "containerID": "c://2", "state": {"running": {}}}
FAILED_INIT = {"name": "git", "containerID": "c://2", "state": {"terminated": {"exitCode": 128}}}
ASKED = StopRequest("released", 10.0)


@pytest.mark.parametrize(
    ("status", "more", "evidence"),
    [
        ({}, {"node": "", "deleted": 3}, "never-bound"),
        ({}, {"node": ""}, ""),
        (running(), {"deleted": 3}, ""),
        (ended(0), {}, "containers-terminated"),
        (ended(137), {"deleted": 3}, "containers-terminated"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, {}, "rejected-by-kubelet"),
        ({**running(), "phase": "Failed"}, {}, ""),  # a phase alone: a container is not known to have ended
        ({"phase": "Failed", **disruption("DeletionByPodGC", 9)}, {"deleted": 3}, ""),
        (ended(143, **disruption("DeletionByPodGC", 9)), {}, "containers-terminated"),  # the kubelet ended them
        ({**ended(0), "initContainerStatuses": [SIDECAR]}, {}, ""),
        ({**waiting("ErrImagePull"), "phase": "Failed"}, {"deleted": 3}, "rejected-by-kubelet"),
    ],
)
def test_gone_has_evidence(status: dict[str, Any], more: dict[str, Any], evidence: str) -> None:
    assert evidence_of(pod(status, **more)) == evidence


@pytest.mark.parametrize(
    ("status", "more", "failure"),
    [
        (ended(0), {}, Failure.NONE),
        (ended(3), {}, Failure.EXIT),
        (ended(137), {}, Failure.RETRYABLE_EXIT),
        (ended(137, "OOMKilled"), {}, Failure.OUT_OF_MEMORY),
        (ended(143), {"deleted": 3, "asked": ASKED}, Failure.OURS),
        (ended(143), {"deleted": 3}, Failure.INFRASTRUCTURE),  # by others
        (ended(1, second=2), {"deleted": 3}, Failure.EXIT),  # it had ended before
        (ended(143, **disruption("EvictionByEvictionAPI", 9)), {}, Failure.INFRASTRUCTURE),
        (ended(1, second=4, **disruption("PreemptionByScheduler", 9)), {}, Failure.EXIT),
        ({**ended(137), "reason": "Evicted", "message": "The node was low on memory."}, {}, Failure.INFRASTRUCTURE),
        ({**ended(137), "reason": "Evicted", "message": OWN_LIMIT}, {}, Failure.EXIT),
        (ended(137, "ContainerStatusUnknown"), {}, Failure.INFRASTRUCTURE),
        ({"phase": "Failed", "reason": "NodeAffinity"}, {}, Failure.INFRASTRUCTURE),
        ({"phase": "Failed", "initContainerStatuses": [FAILED_INIT]}, {}, Failure.START),
        (
            {"phase": "Failed", "initContainerStatuses": [FAILED_INIT], **disruption("EvictionByEvictionAPI", 0)},
            {},
            Failure.INFRASTRUCTURE,
        ),
        (
            {},
            {"node": "", "deleted": 3, "asked": StopRequest(fault="ErrImagePull: no such image")},
            Failure.START,
        ),
    ],
)
def test_an_end_has_its_class(status: dict[str, Any], more: dict[str, Any], failure: Failure) -> None:
    asked = more.get("asked")
    found = pod(status, **{key: value for key, value in more.items() if key != "asked"})
    evidence = evidence_of(found)
    assert evidence
    gone = observed(found, boot="boot", charge=0, asked=asked, gone_at=30.0, evidence=evidence)
    assert failure_of(gone) is failure


@pytest.mark.parametrize(
    ("status", "node", "state"),
    [
        ({}, UP, State.CREATED),
        (waiting("ImagePullBackOff"), UP, State.CREATED),
        (running(ready=False), UP, State.STARTING),
        (running(), UP, State.READY),
        (running(), replace(UP, health=NodeHealth.SILENT), State.LOST),
        (ended(0), replace(UP, health=NodeHealth.SILENT), State.SUCCEEDED),
        (running(), None, State.LOST),
        (ended(2), UP, State.FAILED),
    ],
)
def test_a_replica_stands_as_its_pod_does(status: dict[str, Any], node: NodeView | None, state: State) -> None:
    found = judge(observed(pod(status), boot="boot", charge=0), node)
    assert found.state is state
    assert found.identity == KEY.identity


def test_why_a_replica_stops_is_read_again() -> None:
    assert lines.stop_request_of(ASKED.text()) == ASKED
    assert lines.stopped_name(lines.stop_key(KEY.name)) == KEY.name
    assert lines.stopped_name(KEY.name) == ""


@pytest.mark.parametrize(
    "text", ["", "no json", "[1]", '{"grace": "x"}', '{"grace": 1e999}', '{"grace": -1}', '{"":' + "[" * 3000]
)
def test_what_no_agent_wrote_is_no_reason(text: str) -> None:
    assert lines.stop_request_of(text) == StopRequest()


def test_what_is_written_down_is_the_replica_again() -> None:
    for status in (ended(0), ended(9, message="x" * 2000), ended(137, "OOMKilled"), {"phase": "Failed", "reason": "r"}):
        found = pod(status, deleted=3)
        gone = observed(found, boot="b", charge=14_000, asked=ASKED, gone_at=30.0, evidence=evidence_of(found))
        line = lines.line_of(gone)
        again = lines.replica_of(gone.name, line)
        assert again is not None
        assert len(line) < 1100
        assert replace(again, ended=None) == replace(gone, ended=None)
        assert (again.ended is None) == (gone.ended is None)
        if again.ended is not None and gone.ended is not None:
            assert gone.ended.reason.endswith(again.ended.reason)
            assert replace(again.ended, reason="") == replace(gone.ended, reason="")
    assert lines.replica_of("w", lines.REMOVED) is None


def test_what_no_agent_wrote_is_no_line() -> None:
    for line in ("", "[]x", '{"run": "g1-a0"}', '{"run": "x", "workload": "w", "role": "r", "pattern": "single"}'):
        with pytest.raises((ValueError, KeyError)):
            lines.replica_of("w", line)


def test_a_container_whose_code_is_lost_is_no_fault_of_its_command() -> None:
    found = pod(ended(255, "Unknown"))
    gone = observed(found, boot="b", charge=0, gone_at=1.0, evidence=evidence_of(found))
    assert failure_of(gone) is Failure.INFRASTRUCTURE


def test_an_edited_pattern_hides_no_replica() -> None:
    made = raw(running())
    made["metadata"]["annotations"][marks.PATTERN] = "foo"
    assert observed(pod_of(made, OWNER), boot="b", charge=0).pattern is Pattern.SINGLE


def test_a_pod_that_its_kubelet_refused_is_no_failure() -> None:
    refused = pod({"phase": "Failed", "reason": "UnexpectedAdmissionError"})
    assert is_refused(refused, None)
    assert not is_refused(refused, StopRequest(fault="ErrImagePull: no such image"))
    assert not is_refused(pod({"phase": "Failed", "reason": "OutOfcpu"}, deleted=3), None)
    assert not is_refused(pod(ended(1)), None)


@pytest.mark.parametrize(
    ("found", "asked", "unasked"),
    [
        (pod(running(), deleted=6), None, True),
        (pod(ended(143), deleted=6), None, True),
        (pod(ended(143), deleted=6), StopRequest("replaced"), False),
        (pod(ended(0)), None, False),
        (pod(running()), None, False),
    ],
)
def test_a_deletion_that_was_not_asked_for_is_known(found: Pod, asked: StopRequest | None, *, unasked: bool) -> None:
    assert observed(found, boot="b", charge=0, asked=asked).unasked is unasked


def test_a_pod_of_another_agent_is_no_replica() -> None:
    found = pod(running(), owner=Owner("another", "c"))
    assert found.replica is None
    with pytest.raises(ValueError, match="no replica"):
        observed(found, boot="", charge=0)


def test_a_pod_without_some_of_its_labels_counts_as_one_of_others() -> None:
    broken = raw(running())
    del broken["metadata"]["labels"]["muster.io/run"]
    found = pod_of(broken, OWNER)
    assert found.replica is None
    assert dict(found.amounts.extended) == {"nvidia.com/gpu": 2}


def test_a_known_pod_keeps_its_identity_under_its_uid_alone() -> None:
    known = pod(waiting("ContainerCreating"))
    edited = raw(running())
    edited["metadata"] |= {"labels": {}, "annotations": {}}
    assert pod_of(edited, OWNER, known) == pod(running())
    edited["metadata"]["uid"] = "another"
    assert pod_of(edited, OWNER, known).replica is None


def test_a_message_that_nests_without_end_is_only_a_message() -> None:
    nested = '{"":' + "[" * 3000
    found = pod(ended(3))
    status = ended(3)
    status["containerStatuses"][0]["state"]["terminated"]["message"] = nested
    gone = observed(pod(status), boot="b", charge=0, gone_at=1.0, evidence=evidence_of(found))
    assert gone.ended is not None
    assert gone.ended.reason == nested
