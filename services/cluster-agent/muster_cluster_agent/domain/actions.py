"""What reconciling may ask of a back end, and what a back end may answer.

Holds: every action may be done twice. A call that timed out after it had worked is simply made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Final

from muster_cluster_agent.domain.model import ReplicaKey
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_kernel.reasons import RefusalCode, RefusalScope

_NODE_AGAIN: Final = 30  # seconds; the scheduler lets the pause grow where it is refused again
_CLUSTER_AGAIN: Final = 60


@dataclass(frozen=True, slots=True)
class Create:
    """Write the replica down and start it."""

    plan: ReplicaPlan


@dataclass(frozen=True, slots=True)
class Abandon:
    """Write the replica down as one that could not be started: FAILED (Start) and GONE."""

    plan: ReplicaPlan
    message: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the replica: SIGTERM, and SIGKILL for its whole tree after `grace` seconds.

    released: its run is, so that the bus keeps the reason.
    """

    name: str
    grace: float
    reason: str
    released: bool = False


@dataclass(frozen=True, slots=True)
class Bury:
    """Nothing watches over the replica any more: end what is left of it and write down that it is gone."""

    name: str
    evidence: str
    fault: str


@dataclass(frozen=True, slots=True)
class Remove:
    """The replica is gone and everybody knows: forget it. Its log stays within the log budget.

    released: its run is, so that what is known of the run will be forgotten soon, too.
    """

    name: str
    released: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The workload's address leads to these replicas. closed: to none; deleted: to none for good."""

    workload_id: str
    replicas: tuple[str, ...]
    closed: bool = False
    deleted: bool = False


BackendAction = Create | Abandon | Stop | Bury | Remove | Route


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the scheduler that its assignment cannot be done, or not for one replica of it.

    role: of the one replica that is meant, with its index and its k; empty: the whole run.
    """

    workload_id: str
    generation: int
    attempt: int
    code: RefusalCode
    message: str
    node: str = ""
    role: str = ""
    index: int = 0
    k: int = 0

    @property
    def retry_after(self) -> int:
        """Seconds after which it may be tried there again; 0: not as it is."""
        if self.code.permanent:
            return 0
        return _NODE_AGAIN if self.code.scope is RefusalScope.NODE else _CLUSTER_AGAIN


def refusal_of(plan: ReplicaPlan, code: RefusalCode, message: str) -> Refuse:
    """The refusal of one replica."""
    run = (plan.workload_id, plan.generation, plan.attempt)
    return Refuse(*run, code, message, plan.node, plan.role, plan.index, plan.k)


@dataclass(frozen=True, slots=True)
class NothingHere:
    """Tell the scheduler that no process of this run, or of an earlier one, is in the cluster."""

    workload_id: str
    generation: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Absent(ReplicaKey):
    """Tell the scheduler that a replica is not here and will not be: given up before it was started, or hopeless."""

    message: str


Action = BackendAction | Refuse | NothingHere | Absent


def steps_of(actions: Iterable[Action]) -> Iterable[Sequence[Action]]:
    """The actions in steps, one after the other; those of one step concern different replicas, and are done together.

    A stop of what is buried finds it gone. A replica starts once what was in its way is on its way out.
    """
    ordered = sorted(actions, key=_step)
    return [[*group] for _, group in groupby(ordered, key=_step)]


def _step(action: Action) -> int:
    match action:
        case Route():  # first: a replica that is stopped gets no request any more
            return 0
        case Bury():
            return 1
        case Create():
            return 3
        case _:
            return 2


class Outcome(Enum):
    """A back end's answer. UNKNOWN: it is not known whether it worked; look again and repeat."""

    DONE = "done"
    ALREADY = "already"
    CONFLICT = "conflict"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one action, with a sentence for people where it is not DONE or ALREADY.

    code: the reason of a refusal that is reported to the scheduler; None: the action is only tried again.
    """

    outcome: Outcome
    message: str = ""
    code: RefusalCode | None = None


DONE = Answer(Outcome.DONE)
ALREADY = Answer(Outcome.ALREADY)
