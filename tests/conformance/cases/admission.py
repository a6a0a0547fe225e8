"""What a cluster does to pods before it admits them: webhooks and policies that deny, change or fail, and quotas."""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from operator import le
from typing import Final

from muster.events.v1 import agent_pb2
from tests.conformance import programs
from tests.conformance.admission import By, Trouble
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, Stage, Work, run
from tests.conformance.webhooks import NAME
from tests.support.waiting import eventually, until

_MIRROR: Final = "mirror/image:1"


async def runs_after_all(work: Work) -> None:
    """The workload starts without a failure once nothing denies it any more, and leaves nothing."""
    await work.state(READY)
    assert FAILED not in {message.status.state for message in work.reports()}
    assert await work.starts() == 1
    await work.release()
    await work.state(GONE)
    await work.nothing_left()


@case(Capability.ADMISSION, given=[By.WEBHOOK, By.POLICY], alone=True)
async def what_admission_denies_is_said_in_its_own_words(stage: Stage, by: By) -> None:
    await stage.passed()  # the namespace is there
    work = stage.work(programs.WAITS)
    await cluster_of(stage).admission.deny(work.id, "registry not allowed", by)
    await work.assign()
    refused = await work.refused("AdmissionDenied")
    assert "registry not allowed" in refused.reason.message
    assert work.name() not in refused.reason.message, "the next incarnation is denied with another text"
    assert refused.retry_after_seconds > 0
    await stage.passed()
    await work.release()
    await work.nothing_left()
    assert FAILED not in {message.status.state for message in work.reports()}


@case(Capability.ADMISSION, given=list(Trouble), alone=True)
async def a_webhook_that_fails_is_named_and_holds_up_nothing_else(stage: Stage, trouble: Trouble) -> None:
    await stage.passed()
    work, here = stage.work(programs.WAITS), cluster_of(stage).admission
    await here.trouble(work.id, trouble)
    await work.assign()
    await until(lambda: here.asked)
    await stage.passed()  # while the webhook is waited for
    refused = await work.refused("WebhookFailed")
    assert NAME in refused.reason.message
    assert refused.retry_after_seconds > 0
    await here.admit()
    await runs_after_all(work)


@case(Capability.ADMISSION, alone=True)
async def a_pod_that_is_denied_is_asked_for_less_and_less(stage: Stage) -> None:
    await stage.passed()
    work, here = stage.work(programs.WAITS), cluster_of(stage).admission
    await here.deny(work.id, "not yet")
    await work.assign()
    await work.refused("AdmissionDenied")
    times: list[float] = []

    async def asked() -> int:
        return here.asked

    for count in range(2, 6):
        await eventually(asked, partial(le, count))
        times.append(time.monotonic())
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == sorted(gaps), f"it was asked for again after {gaps} s"
    assert gaps[-1] > 2 * gaps[0]
    refusals = [message for message in stage.bus.of(work.id) if isinstance(message, agent_pb2.AssignmentRefused)]
    assert len(refusals) == 1, "and it was refused once"


@case(Capability.ADMISSION, alone=True)
async def a_quota_that_is_used_up_is_said_with_its_numbers(stage: Stage) -> None:
    await stage.passed()
    here = cluster_of(stage).admission
    await here.limit(0)
    work = stage.work(programs.WAITS)
    await work.assign()
    assert "used: pods=0, limited: pods=0" in (await work.refused("NamespaceQuota")).reason.message
    await here.limit(50)
    await runs_after_all(work)


@case(Capability.ADMISSION, alone=True)
async def a_pod_that_admission_changes_is_taken_back(stage: Stage) -> None:
    await stage.passed()
    node = stage.node()
    cluster_of(stage).kubelets.silent.add(node)
    work = stage.work(programs.WAITS, runs=[run(node=node)])
    await cluster_of(stage).admission.mirror(work.id, _MIRROR)
    await work.assign()
    assert "spec.containers[main].image" in (await work.refused("Mutated")).reason.message
    path = f"/api/v1/namespaces/{stage.namespace}/pods/{work.name()}"
    await until(lambda: path not in cluster_of(stage).kubelets.pods)
    assert await work.starts() == 0
    await work.release()
    await work.nothing_left()
