"""Which classes of waiting workloads the batch kernel may decide in a pool, and on what terms.

Called by turning/batching.py. A class is left to the cycle, head by head, where placing it takes more than one look
into one pool's index: gangs, wishes, several clusters, fixed MIG layouts, named resources, quotas of models or users,
pools that look ahead or cut memory into slices, services and trials; and where its placement would wake others.
Holds: it is found once for all classes that differ in amounts alone, and what does not hang on the moment is kept from
batch to batch (books/kinds.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.asked.rules import NO_RULES
from muster_scheduler.domain.asked.workloads import Request, Workload, WorkloadKind
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.classes import Kin
from muster_scheduler.domain.books.eligible import eligibility_of, rules_of
from muster_scheduler.domain.books.kinds import Kinds, Known
from muster_scheduler.domain.books.models import counted_singly
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.deciding.shapes import Terms
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.eligibility import Eligibility
from muster_scheduler.domain.placement.cluster_choice import able, ready, supports
from muster_scheduler.domain.placement.gang import by_columns, wish_of
from muster_scheduler.domain.placement.place import mig_of
from muster_scheduler.domain.placement.slicing import asks_for_memory, sliced

_PLAIN: Final = {Strategy.BINPACK, Strategy.SPREAD}
_UNKNOWN: Final = Terms()
_SETS: Final = 512  # of eligible nodes whose numbers are remembered


class _Ground(NamedTuple):
    """What a cluster has in the pool, and what earlier batches found out about classes there."""

    capacity: Capacity
    kinds: Kinds


class Classes:
    """The classes of one batch. cluster, capacity: where it places, as its first class has it."""

    def __init__(self, world: World, pool: str) -> None:
        """Begins with no class."""
        self.pool = pool
        self.cluster = ""
        self.capacity: Capacity | None = None
        self._world = world
        self._known: dict[Kin, Terms | None] = {}
        self._sets: dict[Eligibility, int] = {}
        self._limited: dict[str, bool] = {}
        self._grounds: dict[str, _Ground | None] = {}
        self._ready = [c for c in world.inventory.clusters_with(pool) if ready(world, world.clusters.get(c))]
        # A reservation may end with the very head that is placed, and then binds nobody any more.
        self._reserved = any(name == pool for _, name in world.reserved)

    def elsewhere(self, kin: Kin) -> bool:
        """Whether the classes try another pool first."""
        return kin.pools[:1] != (self.pool,)

    def terms(self, workload: Workload, kin: Kin, queue: int) -> Terms | None:
        """What these classes bring beside their own rows, asked for one of their members; None: not for the kernel.

        queue: the row of their project in the tree.
        """
        terms = self._known.get(kin, _UNKNOWN)
        if terms is _UNKNOWN:
            request = workload.request
            single = len(kin.forms) == 1 and kin.forms[0].size == 1 and not self.elsewhere(kin)
            terms = self._terms(workload, request, kin, queue) if request is not None and single else None
            self._known[kin] = terms
        return terms

    def _terms(self, workload: Workload, request: Request, kin: Kin, queue: int) -> Terms | None:
        if self._reserved or request.trials is not None or request.stretch is not None:
            return None
        cluster = self._cluster_of(request)
        ground = self._ground(cluster) if cluster else None
        if cluster is None or ground is None:
            return None
        if self._world.clusters[cluster].missing_of(request.mounts):  # not kept: objects come and go
            return None
        known = self._known_of(workload, request, kin, cluster, ground.kinds)
        if known.asked is None or self._wakes(workload, request):
            return None
        self.cluster, self.capacity = cluster, ground.capacity
        eligible = self._eligible(ground.capacity, known.asked)
        return None if eligible is None else Terms(0, queue, not request.preemptible, eligible, known.spread)

    def _cluster_of(self, request: Request) -> str | None:
        """The one cluster that comes into question, and is the batch's."""
        found = self._ready
        if len(found) > 1:
            found = [cluster for cluster in found if able(request, self._world.clusters.get(cluster))]
        return found[0] if len(found) == 1 and found[0] == (self.cluster or found[0]) else None

    def _ground(self, cluster: str) -> _Ground | None:
        """What the cluster has in the pool, where that is filled by an order that the kernel knows."""
        if cluster not in self._grounds:
            said = self._world.pools.named(cluster, self.pool)
            there = self._world.inventory.capacity(cluster, self.pool)
            plain = there is not None and {said.gpu, said.cpu} <= _PLAIN and not there.boards
            profile = self._world.clusters[cluster].profile
            self._grounds[cluster] = _ground_of(there, said, profile) if there is not None and plain else None
        return self._grounds[cluster]

    def _known_of(self, workload: Workload, request: Request, kin: Kin, cluster: str, kinds: Kinds) -> Known:
        """What is known of a kind of classes, from an earlier batch where nothing was said since then."""
        queues = self._world.queues
        project, department = queues.projects.get(workload.project), queues.department_of(workload.project)
        known = kinds.get(kin, project, department)
        if known is None:
            known = Known(project, department, None)
            if project is not None and self._plain(workload, request, cluster):
                # Neither models nor reservations count here, so that amounts do not bear upon who is eligible.
                asked = eligibility_of(queues, workload, self._world.limits.grace)
                spread = kinds.said.strategy(request.roles[0].shape) is Strategy.SPREAD
                known = Known(project, department, asked, spread)
            kinds.put(kin, known)
        return known

    def _plain(self, workload: Workload, request: Request, cluster: str) -> bool:
        """Whether nothing but quotas, nodes and turns decides about it in the cluster."""
        if not alone(request) or counted_singly(self._world.queues, workload.project):
            return False
        mig = mig_of(self._world, cluster)
        if asks_for_memory(request.roles) and sliced(self._world, cluster, self.pool):
            return False
        return by_columns(request.roles, mig) and supports(request, self._world.clusters[cluster])

    def _wakes(self, workload: Workload, request: Request) -> bool:
        """Whether its placement would have others tried again."""
        return request.preemptible and self._world.waiting.wakes(workload.project, self.pool, request.priority)

    def _eligible(self, capacity: Capacity, asked: Eligibility) -> int | None:
        """The number of the set of nodes that are tried first: without those that ask to be taken last."""
        usable, seeker = capacity.usable, capacity.seeker
        known = seeker.numbers if usable.timeless else self._sets
        number = known.get(asked)
        if number is None:
            mask = usable.mask(asked, self._world.now)
            mask[usable.reluctant(asked)] = False
            number = seeker.number(mask)
            if number is not None:
                if len(known) >= _SETS:
                    known.clear()
                known[asked] = number
        return number

    def timed(self, workload: Workload) -> bool:
        """Whether a workload may have to be looked at by time alone, wherever it was placed."""
        project = workload.project
        if project not in self._limited:
            rules = rules_of(self._world.queues, workload)
            self._limited[project] = bool(self._world.limits.minimum_run) or rules != NO_RULES
        return self._limited[project]


def _ground_of(capacity: Capacity, said: NodePool, profile: Profile | None) -> _Ground:
    kept = capacity.kinds
    if kept is None or not kept.hold(said, profile):
        kept = capacity.kinds = Kinds(said, profile)
    return _Ground(capacity, kept)


def alone(request: Request) -> bool:
    """One replica that may go anywhere in the pool."""
    if request.trials is not None or request.stretch is not None or request.kind is WorkloadKind.INFERENCE:
        return False
    return len(request.roles) == 1 and request.roles[0].size == 1 and wish_of(request).anywhere
