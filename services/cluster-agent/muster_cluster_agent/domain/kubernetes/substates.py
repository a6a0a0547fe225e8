"""What a pod that is not ready yet is doing, and since when (kubernetes.md 8.1).

From conditions and waiting reasons, which are the cluster's own words of the moment; events come late and repeat.
Pure: the time is an argument.
"""

from __future__ import annotations

from typing import Final

from muster_cluster_agent.domain.kubernetes.manifests import MAIN
from muster_cluster_agent.domain.kubernetes.pods import Container, Pod
from muster_cluster_agent.domain.model import StartStep, Substate

SETTLES: Final = 3.0
"""Seconds after which a step of a start is worth telling: most take less, and each is a report."""
_PULLING: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "ImageInspectError"})
_READY_TO_START: Final = "PodReadyToStartContainers"


def start_step_of(pod: Pod) -> StartStep | None:
    """What the pod is doing until it is ready; None: it is ready, has ended, or is to end."""
    if pod.terminal or pod.deleted_at is not None:
        return None
    if not pod.node:
        return StartStep(Substate.BINDING, pod.created_at)
    main = pod.container(MAIN)
    if main is not None and main.ran:
        done = main.ready or main.code is not None
        return None if done else StartStep(Substate.STARTING, main.started_at or pod.created_at)
    waiting = next((one for one in pod.containers if one.waiting in _PULLING), None)
    if waiting is not None:
        return StartStep(Substate.PULLING, _prepared_at(pod))
    preparing = next((one for one in pod.containers if one.ran and one.code is None and not one.lasting), None)
    if preparing is not None:
        return StartStep(Substate.INIT, preparing.started_at or pod.created_at)
    prepared = pod.conditions.get(_READY_TO_START)
    if prepared is not None and prepared.status:
        return StartStep(Substate.PULLING, max(_prepared_at(pod), _latest_end(pod.containers)))
    return StartStep(Substate.MOUNTING, _bound_at(pod))


def is_settled(start: StartStep | None, now: float) -> bool:
    """Whether a step has lasted for long enough to be told."""
    return start is not None and now - start.since >= SETTLES


def _bound_at(pod: Pod) -> float:
    bound = pod.conditions.get("PodScheduled")
    return bound.at if bound is not None and bound.at else pod.created_at


def _prepared_at(pod: Pod) -> float:
    """When its volumes were mounted and its network was made."""
    prepared = pod.conditions.get(_READY_TO_START)
    return prepared.at if prepared is not None and prepared.status and prepared.at else _bound_at(pod)


def _latest_end(containers: tuple[Container, ...]) -> float:
    return max((one.ended_at for one in containers if one.ended_at is not None), default=0.0)
