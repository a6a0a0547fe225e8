"""What a person may ask of a workload, judged by the phase that the read model shows.

Only what can never work is refused here: the scheduler owns the phase and has the last word, and a request that meets
a newer phase is answered by its RequestRefused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster_kernel.lifecycle import REFUSED, DesiredPhase, LifecycleEvent, Phase, step


class Request(StrEnum):
    """What can be asked of a workload."""

    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Ask:
    """The request goes to the scheduler."""


@dataclass(frozen=True, slots=True)
class AlreadySo:
    """There is nothing left to ask for."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """The phase will never allow it; `why` is a sentence for people."""

    why: str


_EVENTS: Final = {
    Request.SUSPEND: LifecycleEvent.SUSPEND,
    Request.RESUME: LifecycleEvent.RESUME,
    Request.DELETE: LifecycleEvent.DELETE,
}


def judge(request: Request, name: str, phase: Phase, desired: DesiredPhase) -> Ask | AlreadySo | Impossible:
    """Whether `request` makes sense for the workload `name` in `phase`."""
    if request is Request.DELETE and phase is Phase.DELETED:
        return AlreadySo()
    if step(phase, _EVENTS[request], desired) is REFUSED:
        return Impossible(
            f"cannot {request} {name}: it is {phase}. Only a workload that has not ended can be suspended or resumed; "
            "submit it again to run it anew"
        )
    return Ask()
