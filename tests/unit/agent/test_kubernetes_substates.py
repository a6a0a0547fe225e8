"""What a pod that is not ready yet is doing, and since when: from its conditions and its containers' own words."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes.pods import pod_of
from muster_cluster_agent.domain.kubernetes.substates import SETTLES, is_settled, start_step_of
from muster_cluster_agent.domain.model import StartStep, Substate
from tests.support.kubernetes_pods import BOUND, OWNER, at, ended, pod, raw, running, waiting

MADE = pod().created_at


def prepared(second: int) -> dict[str, Any]:
    """Its volumes are mounted and its network is made."""
    condition = {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": at(second)}
    return {"conditions": [BOUND, condition]}


def init(state: dict[str, Any], container: str = "c://0") -> dict[str, Any]:
    return {"initContainerStatuses": [{"name": "fetch", "containerID": container, "state": state}]}


@pytest.mark.parametrize(
    ("status", "substate", "second"),
    [
        (waiting("ContainerCreating"), Substate.MOUNTING, 1),
        ({**waiting("ContainerCreating"), **prepared(4)}, Substate.PULLING, 4),
        ({**waiting("ImagePullBackOff"), **prepared(4)}, Substate.PULLING, 4),
        (waiting("ErrImagePull"), Substate.PULLING, 1),
        ({**waiting("PodInitializing"), **init({"running": {"startedAt": at(6)}}), **prepared(4)}, Substate.INIT, 6),
        (
            {
                **waiting("PodInitializing"),
                **init({"terminated": {"exitCode": 0, "startedAt": at(6), "finishedAt": at(9)}}),
                **prepared(4),
            },
            Substate.PULLING,
            9,
        ),
        (running(ready=False), Substate.STARTING, 5),
    ],
)
def test_each_step_with_the_moment_at_which_it_began(status: dict[str, Any], substate: Substate, second: int) -> None:
    assert start_step_of(pod(status)) == StartStep(substate, MADE + second)


def test_a_pod_without_a_node_is_being_bound() -> None:
    assert start_step_of(pod({"conditions": []}, node="")) == StartStep(Substate.BINDING, MADE)


def test_a_sidecar_that_runs_is_no_step_of_the_start() -> None:
    status = {**waiting("PodInitializing"), **init({"running": {"startedAt": at(6)}}), **prepared(4)}
    made = raw(status)
    made["spec"]["initContainers"] = [{"name": "fetch", "restartPolicy": "Always"}]
    assert start_step_of(pod_of(made, OWNER)) == StartStep(Substate.PULLING, MADE + 4)


@pytest.mark.parametrize("status", [running(), ended(0), ended(1)])
def test_what_is_ready_or_has_ended_starts_no_more(status: dict[str, Any]) -> None:
    assert start_step_of(pod(status)) is None


def test_what_is_to_end_starts_no_more() -> None:
    assert start_step_of(pod(waiting("ContainerCreating"), deleted=3)) is None


def test_a_step_is_told_once_it_has_lasted() -> None:
    step = StartStep(Substate.PULLING, MADE)
    assert not is_settled(step, MADE + SETTLES - 0.1)
    assert is_settled(step, MADE + SETTLES)
    assert not is_settled(None, MADE)
