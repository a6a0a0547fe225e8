"""Questions that the scheduler's tests ask of a small fleet: where a workload is, why it waits, what would help.

Holds: a question changes nothing; `why` fails the test that asks it where it did.
"""

from __future__ import annotations

from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain.answers.explain import Explanation, explain
from tests.support.fleets import Fleet


def why(fleet: Fleet, number: int) -> Explanation:
    """What `muster why` says of a workload."""
    digest = fleet.state.digest()
    answer = explain(fleet.world, fleet.workload(number))
    fleet.state.check()
    assert fleet.state.digest() == digest, "a question has changed the state"
    return answer


def waits(fleet: Fleet, number: int) -> tuple[WaitingReason, str]:
    """The one reason for which it waits, as a code and as people read it."""
    reason = why(fleet, number).reason
    assert reason is not None
    return reason.code, reason.sentence()


def said(fleet: Fleet, number: int) -> tuple[str, str, list[str], list[str]]:
    """Why it waits: the code, the sentence, what keeps which nodes out, and what would help."""
    answer = why(fleet, number)
    assert answer.reason is not None
    nodes = [f"{many} {text}" for _, many, text in answer.excluded]
    return answer.reason.code.value, answer.reason.sentence(), nodes, list(answer.unblockers)


def where(fleet: Fleet, number: int) -> list[str]:
    """The node of each replica, by role and rank."""
    replicas = fleet.workload(number).replicas
    return [replicas[key].node[1] for key in sorted(replicas)]
