"""Which classes of waiting workloads the batch kernel may decide in a pool, and the rows of numbers that it reads.

Called by turning/batching.py. A class is left to the cycle, head by head, where placing it takes more than one look
into one pool's index: gangs, wishes, several clusters, fixed MIG layouts, named resources, quotas of models or users,
pools that look ahead, services and trials; and where its placement would wake others.
Holds: what does not hang on amounts is found once for all classes that differ in amounts alone.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

import numpy as np

from muster_scheduler.domain.asked.requests import Grant, Kind, Shape
from muster_scheduler.domain.asked.rules import NO_RULES
from muster_scheduler.domain.asked.workloads import Request, Workload, WorkloadKind
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.eligible import rules_of
from muster_scheduler.domain.books.models import asked_of, counted_singly
from muster_scheduler.domain.books.pools import Strategy
from muster_scheduler.domain.books.waiting import Bucket
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.deciding.shapes import Terms, row_of
from muster_scheduler.domain.fleet.columns import Ints64
from muster_scheduler.domain.fleet.eligibility import Eligibility
from muster_scheduler.domain.placement.gang import by_columns, wish_of
from muster_scheduler.domain.placement.place import charge_before, clusters_for, mig_of
from muster_scheduler.domain.tuples import new

_PLAIN: Final = {Strategy.BINPACK, Strategy.SPREAD}
_UNKNOWN: Final = Terms()
_but_roles: Final = itemgetter(*(at for at, name in enumerate(ClassKey._fields) if name != "roles"))


class Classes:
    """The classes of one batch. cluster, capacity: where it places, as its first class has it.

    grants: by row, what each member gets where that is CPU and memory alone; else None.
    """

    def __init__(self, world: World, pool: str) -> None:
        """Begins with no class."""
        self.pool = pool
        self.cluster = ""
        self.capacity: Capacity | None = None
        self.grants: list[Grant | None] = []
        self._world = world
        self._rows: list[tuple[int, ...]] = []
        self._numbers: dict[int, int | None] = {}
        self._kin: dict[tuple[object, ...], Terms | None] = {}
        self._sets: dict[Eligibility, int | None] = {}
        self._limited: dict[str, bool] = {}
        self._singly: dict[str, bool] = {}
        self._grounds: dict[str, Capacity | None] = {}
        # A reservation may end with the very head that is placed, and then binds nobody any more.
        self._reserved = any(name == pool for _, name in world.reserved)

    def shapes(self) -> Ints64:
        """The rows of the classes, int64[classes, WIDTH]."""
        return np.array(self._rows, np.int64)

    def elsewhere(self, bucket: Bucket) -> bool:
        """Whether the class tries another pool first."""
        return bucket.key.pools[:1] != (self.pool,)

    def row(self, workload: Workload, bucket: Bucket, queue: int) -> int | None:
        """The number of a class, asked for one of its members; None: it is not for the kernel. queue: its project's."""
        number = bucket.number
        if number not in self._numbers:
            self._numbers[number] = None if self.elsewhere(bucket) else self._found(workload, bucket.key, queue)
        return self._numbers[number]

    def _found(self, workload: Workload, key: ClassKey, queue: int) -> int | None:
        request = workload.request
        if request is None or len(key.roles) != 1 or key.roles[0].size != 1:
            return None
        shape = key.roles[0].shape
        kin = _but_roles(key), shape.kind, shape.profile, shape.extra
        terms = self._kin.get(kin, _UNKNOWN)
        if terms is _UNKNOWN:
            terms = self._kin[kin] = self._terms(workload, request, shape, queue)
        if terms is None:
            return None
        if shape.kind is Kind.NONE:
            self._rows.append(row_of(shape, terms))
            self.grants.append(new(Grant, (shape.cpu, shape.memory, (), 0, 0, ())))
        else:
            units = charge_before(self._world, request, self.pool)
            self._rows.append(row_of(shape, terms._replace(units=units)))
            self.grants.append(None)
        return len(self._rows) - 1

    def _terms(self, workload: Workload, request: Request, shape: Shape, queue: int) -> Terms | None:
        """What classes have in common that differ in amounts alone, but for the units that each takes."""
        if not alone(request) or not self._free(workload, request):
            return None
        cluster = self._cluster_of(workload, request)
        capacity = self._ground(cluster) if cluster else None
        if cluster is None or capacity is None or not by_columns(request.roles, mig_of(self._world, cluster)):
            return None
        self.cluster, self.capacity = cluster, capacity
        # Neither models nor reservations count here, so that amounts do not bear upon which nodes are eligible.
        eligible = self._eligible(capacity, asked_of(self._world, workload, 0))
        if eligible is None:
            return None
        spread = self._world.pools.named(cluster, self.pool).strategy(shape) is Strategy.SPREAD
        return Terms(0, queue, not request.preemptible, eligible, spread)

    def _cluster_of(self, workload: Workload, request: Request) -> str | None:
        """The one cluster that comes into question, and is the batch's."""
        found = clusters_for(self._world, workload, request, self.pool)
        return found[0] if len(found) == 1 and found[0] == (self.cluster or found[0]) else None

    def _ground(self, cluster: str) -> Capacity | None:
        """What the cluster has in the pool, where that is filled by an order that the kernel knows."""
        if cluster not in self._grounds:
            said, there = (
                self._world.pools.named(cluster, self.pool),
                self._world.inventory.capacity(cluster, self.pool),
            )
            plain = {said.gpu, said.cpu} <= _PLAIN and there is not None and not there.boards
            self._grounds[cluster] = there if plain else None
        return self._grounds[cluster]

    def _free(self, workload: Workload, request: Request) -> bool:
        """Whether nothing but quotas, nodes and turns decides, and nobody else is woken."""
        name = workload.project
        if name not in self._singly:
            self._singly[name] = name not in self._world.queues.projects or counted_singly(self._world.queues, name)
        if self._reserved or self._singly[name]:
            return False
        return not (request.preemptible and self._world.waiting.wakes(workload.project, self.pool, request.priority))

    def _eligible(self, capacity: Capacity, asked: Eligibility) -> int | None:
        """The number of the set of nodes that are tried first: without those that ask to be taken last."""
        if asked not in self._sets:
            mask = capacity.usable.mask(asked, self._world.now)
            mask[capacity.usable.reluctant(asked)] = False
            self._sets[asked] = capacity.seeker.number(mask)
        return self._sets[asked]

    def timed(self, workload: Workload) -> bool:
        """Whether a workload may have to be looked at by time alone, wherever it was placed."""
        project = workload.project
        if project not in self._limited:
            rules = rules_of(self._world.queues, workload)
            self._limited[project] = bool(self._world.limits.minimum_run) or rules != NO_RULES
        return self._limited[project]


def alone(request: Request) -> bool:
    """One replica that may go anywhere in the pool."""
    if request.trials is not None or request.stretch is not None or request.kind is WorkloadKind.INFERENCE:
        return False
    return len(request.roles) == 1 and request.roles[0].size == 1 and not wish_of(request).keys
