"""What keeps a pod from starting: what it says itself, and what the cluster's events say."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes.pods import Pod, moment
from muster_cluster_agent.domain.kubernetes.starting import (
    Hindrance,
    hindrance_in,
    hindrance_of,
    is_slow,
    is_starting,
    waits_for,
)
from muster_kernel.reasons import RefusalCode
from tests.support.kubernetes_pods import BOUND, at, pod, running, waiting

T0 = moment(at(0)) or 0.0


def unbound(second: int, reason: str = "Unschedulable") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/2 nodes"}
    return {"conditions": [{**condition, "lastTransitionTime": at(second)}]}


def bound(reason: str = "ContainerCreating", message: str = "") -> Pod:
    return pod({**waiting(reason, message), "conditions": [BOUND]})


def event(reason: str, message: str = "", second: int = 30) -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": at(second)}


def test_a_pod_that_fits_nowhere_is_refused_after_a_while() -> None:
    found = hindrance_of(pod(unbound(10), node=""), T0 + 40, 0.0)
    assert found == Hindrance(
        "the cluster's scheduler finds no place on its node: 0/2 nodes", RefusalCode.FOREIGN_TAKEN
    )
    assert hindrance_of(pod(unbound(11), node=""), T0 + 40, 0.0) is None


def test_a_pod_that_something_holds_back_is_refused_and_not_taken_for_a_full_node() -> None:
    found = hindrance_of(pod(unbound(10, "SchedulingGated"), node=""), T0 + 40, 0.0)
    assert found is not None
    assert found.code is RefusalCode.GATED


def test_a_pod_that_no_scheduler_looks_at_is_refused_after_ten_minutes() -> None:
    alone = pod({}, node="")
    assert hindrance_of(alone, T0 + 599, 0.0) is None
    found = hindrance_of(alone, T0 + 600, 0.0)
    assert found is not None
    assert found.code is RefusalCode.START_DEADLINE


@pytest.mark.parametrize(
    ("reason", "seconds", "code"),
    [
        ("InvalidImageName", 0, None),
        ("ErrImageNeverPull", 0, None),
        ("ErrImagePull", 60, None),
        ("ImagePullBackOff", 60, None),
        ("CreateContainerConfigError", 60, RefusalCode.MISSING_OBJECT),
    ],
)
def test_what_a_container_waits_for_counts_at_once_or_once_it_lasts(
    reason: str, seconds: int, code: RefusalCode | None
) -> None:
    found = hindrance_of(bound(reason, "words"), T0 + seconds, T0)
    assert found == Hindrance(f"{reason}: words", code)
    if seconds:
        assert hindrance_of(bound(reason, "words"), T0 + seconds - 1, T0) is None


def test_which_pods_are_looked_after() -> None:
    assert is_starting(bound())
    assert is_starting(pod({}, node=""))
    assert not is_starting(pod(running()))
    assert not is_starting(pod(waiting("InvalidImageName"), deleted=3))
    assert (waits_for(bound("ErrImagePull")), waits_for(bound())) == ("ErrImagePull", "")
    assert (is_slow(bound(), T0 + 61), is_slow(bound(), T0 + 60)) == (True, False)
    assert not is_slow(pod({}, node=""), T0 + 1000)


def test_an_image_that_is_being_pulled_has_its_own_deadline() -> None:
    told = [event("Pulling"), event("Scheduled", second=1)]
    assert hindrance_in(told, bound(), T0 + 3000, 3600.0) is None
    found = hindrance_in(told, bound(), T0 + 3601, 3600.0)
    assert found == Hindrance("its image was not pulled within 3600 s")


def test_a_volume_that_is_not_there_is_missing_and_one_that_is_slow_is_not() -> None:
    missing = [event("Pulled", second=10), event("FailedMount", 'configmap "x" not found')]
    assert hindrance_in(missing, bound(), T0 + 61, 3600.0) == Hindrance(
        'FailedMount: configmap "x" not found', RefusalCode.MISSING_OBJECT
    )
    slow = [event("FailedAttachVolume", "timed out")]
    assert hindrance_in(slow, bound(), T0 + 599, 3600.0) is None
    assert hindrance_in(slow, bound(), T0 + 601, 3600.0) == Hindrance("FailedAttachVolume: timed out")


def test_a_pod_of_which_nothing_is_known_does_not_wait_for_ever() -> None:
    found = hindrance_in([], bound(), T0 + 601, 3600.0)
    assert found is not None
    assert (found.code, "the cluster says not why" in found.text) == (None, True)


def test_the_newest_word_about_the_image_counts() -> None:
    again = [event("Pulling", second=10), event("Failed", "403", second=20)]
    assert hindrance_in(again, bound(), T0 + 100, 3600.0) is None
    series = [{"reason": "Pulling", "series": {"lastObservedTime": at(50)}}, event("Failed", second=20)]
    assert hindrance_in(series, bound(), T0 + 700, 3600.0) is None
