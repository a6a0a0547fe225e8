"""What goes into the engine and what comes out: asks, queues, decisions and refusals as values.

Pure data; made by whoever owns the books (or by a benchmark), read by whoever publishes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.deciding.accounts import OVER_LIMIT, OVER_QUOTA
from muster_scheduler.domain.deciding.batch import NO_ROOM


class Code(IntEnum):
    """Why a class waits."""

    OVER_LIMIT = OVER_LIMIT
    OVER_QUOTA = OVER_QUOTA
    NO_ROOM = NO_ROOM


class Ask(NamedTuple):
    """One replica that waits. queued: its age in microseconds since the epoch; units: 1/7,000 GPU before placement.

    eligible: number of its eligibility in this pool, 0 for every node.
    """

    id: str
    queue: str
    shape: Shape
    units: int
    queued: int
    priority: int = 0
    preemptible: bool = True
    eligible: int = 0


class Amounts(NamedTuple):
    """A quota in 1/7,000 GPU, milli-CPU and MiB; None: it does not name the resource."""

    units: int | None = None
    cpu: int | None = None
    memory: int | None = None


class QueueSpec(NamedTuple):
    """One queue. parent: its name, empty for what hangs at the root; weight 0: nothing over its quota."""

    name: str
    parent: str = ""
    deserved: Amounts = Amounts(0)
    limit: Amounts = Amounts()
    weight: int = 1
    rank: int = 0


class Decision(NamedTuple):
    """One replica has its place. mask and start as in `taking.Run`; units: what it is charged, in 1/7,000 GPU.

    shape: the number of its class, for the engine alone.
    """

    id: str
    shape: int
    node: int
    mask: int
    start: int
    units: int


class Refusal(NamedTuple):
    """Why a class waits, in numbers. `position` of the change log at which it was tried; `queue` that forbids more.

    resource: 0 GPU units, 1 milli-CPU, 2 MiB. Without room, `held` is how many nodes were tested.
    """

    code: Code
    queue: str
    resource: int
    held: int
    allowed: int
    asked: int
    position: int
