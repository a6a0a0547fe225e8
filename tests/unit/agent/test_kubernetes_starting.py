"""What keeps a pod from starting: what it says itself, and what the cluster's events say."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes.pods import Pod, moment
from muster_cluster_agent.domain.kubernetes.starting import (
    EventSummary,
    Hindrance,
    hindrance_of,
    is_slow,
    is_starting,
    stuck,
    summary_of,
    waits,
)
from muster_kernel.reasons import RefusalCode
from tests.support.kubernetes_pods import BOUND, at, pod, running, waiting

T0 = moment(at(0)) or 0.0


def unbound(second: int, reason: str = "Unschedulable", message: str = "0/2 nodes") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"conditions": [{**condition, "lastTransitionTime": at(second)}]}


def bound(reason: str = "ContainerCreating", message: str = "") -> Pod:
    return pod({**waiting(reason, message), "conditions": [BOUND]})


def event(reason: str, message: str = "", second: int = 30, count: int = 2) -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": at(second), "count": count}


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
    assert found == Hindrance(
        "it was not bound within 600 s: no scheduler of the cluster has looked at it", RefusalCode.START_DEADLINE
    )


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('0/2 nodes are available: persistentvolumeclaim "data" not found', RefusalCode.MISSING_OBJECT),
        ("0/2 nodes are available: request devices: device class gpu does not exist", RefusalCode.MISSING_OBJECT),
        ("0/2 nodes are available: 1 cannot allocate all claims", RefusalCode.FOREIGN_TAKEN),
        ("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", RefusalCode.FOREIGN_TAKEN),
    ],
)
def test_what_the_scheduler_misses_is_told_from_what_is_full(message: str, code: RefusalCode) -> None:
    found = hindrance_of(pod(unbound(10, message=message), node=""), T0 + 60, 0.0)
    assert found is not None
    assert found.code is code


def test_a_volume_that_is_being_bound_has_ten_minutes() -> None:
    waiting_for_it = pod(unbound(10, message="pod has unbound immediate PersistentVolumeClaims."), node="")
    assert hindrance_of(waiting_for_it, T0 + 500, 0.0) is None
    found = hindrance_of(waiting_for_it, T0 + 600, 0.0)
    assert found is not None
    assert (found.code, "unbound immediate" in found.text) == (RefusalCode.START_DEADLINE, True)


@pytest.mark.parametrize(
    ("reason", "message", "seconds", "code"),
    [
        ("InvalidImageName", "words", 0, None),
        ("ErrImageNeverPull", "words", 0, None),
        ("ErrImagePull", "registry/x:7: not found", 60, None),
        ("ImagePullBackOff", "403 Forbidden", 60, None),
        ("CreateContainerConfigError", 'secret "x" not found', 60, RefusalCode.MISSING_OBJECT),
        ("CreateContainerConfigError", "couldn't find key a in Secret p/x", 60, RefusalCode.MISSING_OBJECT),
        ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root", 60, None),
    ],
)
def test_what_a_container_waits_for_counts_at_once_or_once_it_lasts(
    reason: str, message: str, seconds: int, code: RefusalCode | None
) -> None:
    found = hindrance_of(bound(reason, message), T0 + seconds, T0)
    assert found == Hindrance(f"{reason}: {message}", code)
    if seconds:
        assert hindrance_of(bound(reason, message), T0 + seconds - 1, T0) is None


def test_a_pull_that_broke_off_is_tried_again_until_nothing_has_moved_for_ten_minutes() -> None:
    broken = bound("ImagePullBackOff", "connection reset by peer")
    assert hindrance_of(broken, T0 + 500, T0) is None
    assert stuck(broken, EventSummary(), T0 + 500, 3600.0) is None
    assert stuck(broken, EventSummary(), T0 + 601, 3600.0) == Hindrance("ImagePullBackOff: connection reset by peer")
    assert stuck(broken, summary_of([event("Failed"), event("Pulling", second=40)], T0 + 601), T0 + 601, 3600.0) is None


def test_which_pods_are_looked_after() -> None:
    assert is_starting(bound())
    assert is_starting(pod({}, node=""))
    assert not is_starting(pod(running()))
    assert not is_starting(pod(waiting("InvalidImageName"), deleted=3))
    assert (waits(bound("ErrImagePull")), waits(bound())) == (True, False)
    assert (is_slow(bound(), T0 + 61), is_slow(bound(), T0 + 60)) == (True, False)
    assert not is_slow(pod({}, node=""), T0 + 1000)


def test_an_image_that_is_being_pulled_has_its_own_deadline() -> None:
    told = summary_of([event("Pulling"), event("Scheduled", second=1)], T0 + 100)
    assert told == EventSummary(pulling=True)
    assert stuck(bound(), told, T0 + 3000, 3600.0) is None
    assert stuck(bound(), told, T0 + 3601, 3600.0) == Hindrance("its image was not pulled within 3600 s")


def test_a_volume_that_is_not_there_is_missing_and_one_that_is_slow_is_not() -> None:
    missing = summary_of([event("Pulled", second=10), event("FailedMount", 'configmap "x" not found')], T0 + 61)
    assert stuck(bound(), missing, T0 + 61, 3600.0) == Hindrance(
        'FailedMount: configmap "x" not found', RefusalCode.MISSING_OBJECT
    )
    driver = summary_of([event("FailedMount", 'driver "x" not found in the list of registered CSI drivers')], T0 + 61)
    assert stuck(bound(), driver, T0 + 61, 3600.0) is None
    slow = summary_of([event("FailedAttachVolume", "timed out")], T0 + 61)
    assert stuck(bound(), slow, T0 + 599, 3600.0) is None
    assert stuck(bound(), slow, T0 + 601, 3600.0) == Hindrance("FailedAttachVolume: timed out")


def test_devices_that_a_driver_cannot_prepare_are_named() -> None:
    told = summary_of([event("FailedPrepareDynamicResources", "the driver does not answer")], T0 + 61)
    assert stuck(bound(), told, T0 + 601, 3600.0) == Hindrance(
        "FailedPrepareDynamicResources: the driver does not answer"
    )


def test_trouble_that_is_over_counts_no_more() -> None:
    over = [event("FailedMount", 'configmap "x" not found', second=1), event("Pulling", second=6)]
    assert summary_of(over, T0 + 61) == EventSummary(pulling=True)
    once = summary_of([event("FailedMount", 'configmap "x" not found', second=1, count=1)], T0 + 61)
    assert stuck(bound(), once, T0 + 61, 3600.0) is None


def test_a_checkout_has_as_long_as_a_pull() -> None:
    state = {"running": {"startedAt": at(2)}}
    cloning = pod({"initContainerStatuses": [{"name": "git-0", "containerID": "c://0", "state": state}]})
    nothing = summary_of([], T0 + 601)
    assert stuck(cloning, nothing, T0 + 3000, 3600.0) is None
    assert stuck(cloning, nothing, T0 + 3700, 3600.0) == Hindrance("container git-0 did not end within 3600 s")


def test_a_pod_of_which_nothing_is_known_does_not_wait_for_ever() -> None:
    found = stuck(bound(), summary_of([], T0 + 601), T0 + 601, 3600.0)
    assert found is not None
    assert (found.code, "the cluster reports no reason" in found.text) == (None, True)


def test_a_series_of_events_is_as_new_as_its_last_one() -> None:
    series = [{"reason": "Pulling", "series": {"lastObservedTime": at(50)}}, event("FailedMount", second=20)]
    assert summary_of(series, T0 + 700).pulling
