"""What making room reads and answers, as plain values and arrays.

The caller derives them from its books for one (cluster, node pool): `Running` lists the preemptible workloads that may
be asked to leave or move, `Tree` the queues, `Taker` who needs the room. The answer is a `Vacated` or a `NoRoom`.
Holds: nothing here changes; indices are positions in these arrays, and every tie ends at `Running.key`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.fleet.columns import Columns

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TOP: Final = -1  # the parent of a department
ALL: Final = -1  # Held.bytes of a whole card: all that the card has
ANY: Final = None  # Taker.domains where no level of topology is required


class Held(NamedTuple):
    """What the running workloads hold: the runs of workload v are rows first[v] to first[v + 1].

    node: int64[m] row of the columns. cpu, memory: milli-CPU and bytes. slots: bit mask of device slots, on each of
    which it holds `milli` thousandths, `bytes` (ALL: the whole card) and the MIG slices and `+me` bits of `slices` and
    `media`. replicas: 1 in the first run of a replica, else 0. anonymous: devices without a slot. extra: int64[m, R] as
    the columns' `extra`.
    """

    first: Ints
    node: Ints
    cpu: Ints
    memory: Ints
    replicas: Ints
    extra: Ints
    slots: Ints
    milli: Ints
    bytes: Ints
    anonymous: Ints
    slices: Ints
    media: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """Preemptible workloads of one pool past their minimum run time, v of them; one row may be an elastic surplus.

    queue: int64[v] leaf of the tree. units: int64[v, R], what it is charged, resources as in the tree.
    interrupted: 1, or 0 for an elastic surplus replica. lost: GPU-seconds since the last reported checkpoint. placed:
    when it started. priority: of its class. key: its position by id, each once.
    """

    queue: Ints
    units: Ints
    interrupted: Ints
    lost: Ints
    placed: Ints
    priority: Ints
    key: Ints
    held: Held

    def __len__(self) -> int:
        """How many there are."""
        return len(self.queue)


class Tree(NamedTuple):
    """The queues of one pool, parents before children. parent: int64[q], TOP for the outermost.

    allocated, fair, deserved: int64[q, R] in the accounts' units; R is 1 (GPUs in 1/7,000) or 3 (then milli-CPU and
    bytes). counted: bool[R], the resources that any quota names. loose: int64[q, R], what preemptible work holds of it.
    """

    parent: Ints
    allocated: Ints
    fair: Ints
    deserved: Ints
    counted: Bools
    loose: Ints


class Floor(NamedTuple):
    """What victims of one part of the tree have to release at least, so that a limit allows the taker.

    queues: bool[q], the rows whose work counts. least: int64[R], 0 for a resource that is not short.
    """

    queues: Bools
    least: Ints


class Taker(NamedTuple):
    """Who needs room: `size` replicas of one shape, all or none, of a leaf queue.

    units: int64[R], what all of them are charged. eligible: bool[n], the nodes that it may use. domains: int64[n], the
    domain of each node at the required level (below 0: in none), or ANY. Of a gang of several roles, `shape` is the
    largest role's and `size` all its replicas; such a gang is judged by a `Fits`. floors: the limits that are in its
    way, beside places.
    """

    queue: int
    shape: Shape
    size: int
    units: Ints
    eligible: Bools
    domains: Ints | None = ANY
    priority: int = 0
    floors: tuple[Floor, ...] = ()

    def released(self, running: Running) -> tuple[Ints, Ints]:
        """int64[v, k], int64[k]: what each candidate's leaving counts towards each floor, and how much is needed."""
        named = [(floor, r) for floor in self.floors for r in np.flatnonzero(floor.least)]
        gives = [np.where(floor.queues[running.queue], running.units[:, r], 0) for floor, r in named]
        least = np.array([floor.least[r] for floor, r in named], np.int64)
        return np.array(gives, np.int64).reshape(len(named), len(running)).T.copy(), least


Fits = Callable[[Columns], bool]
"""Whether a gang that counting one shape cannot judge (several roles, a richer wish) fits on these columns."""


class Question(NamedTuple):
    """Who needs room, in which pool, from whom. fits: None where counting replicas of the taker's shape tells all."""

    columns: Columns
    running: Running
    taker: Taker
    fits: Fits | None = None


class Obstacle(Enum):
    """Why no room can be made. The numbers of each stand beside it."""

    SHARE = "share"  # what its queue would hold, what that may hold: in units
    NOTHING = "nothing"  # what may be freed and what is free in sum, what it needs: in units
    PLACES = "places"  # replicas that fit in the best domain if all who may be asked left, replicas needed
    VICTIMS = "victims"  # replicas that fit as above, replicas needed: every way takes more than queues may lose
    HOMES = "homes"  # workloads that would have to move, those of them that have no other place


class NoRoom(NamedTuple):
    """No room can be made. `exact` is False where a bound on work ended the search before it was complete.

    resource: the column of the tree in whose units the numbers of SHARE and NOTHING are.
    """

    obstacle: Obstacle
    numbers: tuple[int, int]
    exact: bool = True
    resource: int = 0


Judge = Callable[[Ints], Bools]
"""bool[q]: queues that lose too much by these victims."""


class Law(NamedTuple):
    """Which of two sets is the better one: that with the smaller worst grade, then the smaller sums, column by column.

    grade: int64[v]. costs: int64[v, k]. Sets that are alike in both: the one of which the oldest is younger.
    """

    grade: Ints
    costs: Ints


class Vacated(NamedTuple):
    """Who leaves (rows of Running, the first to go first) and the replicas that fit on each node then (int64[n]).

    counts is empty where a `Fits` judged.
    """

    victims: tuple[int, ...]
    counts: Ints
