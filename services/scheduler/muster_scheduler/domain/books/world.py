"""Everything that the state machine knows, in one place, and the small changes that all its parts make.

Truth: workloads, inventory, queues (accounts), clusters; changed through the journal only. Derived: the queue and the
timers, which deriving.py makes anew from the truth. `decisions` and `touched` belong to the open transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster_kernel.lifecycle import ACTIVE, FINAL, OVER, RELEASING, WAITING, Phase
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.courses import COURSE, turned
from muster_scheduler.domain.asked.limits import RETIRE_AFTER, RETIRE_AT_ONCE, WAITING_EVERY, Limits
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Grant
from muster_scheduler.domain.asked.workloads import Ending, Replica, Request, Workload
from muster_scheduler.domain.books.accounts import Owner
from muster_scheduler.domain.books.eligible import rules_of
from muster_scheduler.domain.books.inventory import Inventory
from muster_scheduler.domain.books.leaving import Leaving
from muster_scheduler.domain.books.pools import NodePools
from muster_scheduler.domain.books.queues import Queues
from muster_scheduler.domain.books.standing import Kept
from muster_scheduler.domain.books.stretches import Stretches
from muster_scheduler.domain.books.timers import Timers
from muster_scheduler.domain.books.times import delete_at, times_of
from muster_scheduler.domain.books.touched import Freed, Touched
from muster_scheduler.domain.books.usual import Usual
from muster_scheduler.domain.decisions import Assign, Queued, Taken, Waiting
from muster_scheduler.domain.fleet.clocks import Due, next_due
from muster_scheduler.domain.fleet.clusters import Cluster, Orphan
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.tuples import new


def owner_of(workload: Workload, *, surplus: bool = False) -> Owner:
    """Whose account a workload is charged to. surplus: for what its gang can do without, which anybody may take."""
    preemptible = surplus or workload.request is None or workload.request.preemptible
    return new(Owner, (workload.project, workload.owner, workload.id, preemptible))


def amount_of(grants: Iterable[Grant]) -> Amount:
    """What grants cost in the accounts, together."""
    gpu = cpu = memory = 0
    for grant in grants:
        gpu += grant.charge
        cpu += grant.cpu
        memory += grant.memory
    return new(Amount, (gpu, cpu, memory))


class World:
    """The state machine's whole memory."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Begins with nothing known."""
        self.limits = limits or Limits()
        self.journal = Journal()
        self.inventory = Inventory(self.journal)
        self.queues = Queues(self.journal)
        self.pools = NodePools(self.journal)
        self.workloads: dict[str, Workload] = {}
        self.clusters: dict[str, Cluster] = {}
        self.read_until: Mapping[str, int] = {}  # cluster -> until when its reports are read; without one: until now
        # (cluster, pool, project) -> workloads that hold something there
        self.placed: dict[tuple[str, str, str], dict[str, None]] = {}
        self.departing = Leaving(self.journal)
        self.weighed = 0  # the last part of a half life of past use in which queues were weighed
        self.quarantined: dict[str, Quarantined] = {}  # workloads that no cycle attends to
        self.attending = ""  # the workload that the cycle looks at now; says whom to set aside where that fails
        self.attending_place = ""  # the node pool or cluster, where it looks at no workload
        self.places_aside: dict[str, Quarantined] = {}  # node pools and clusters that no cycle looks at; of this term
        self.batches = True  # whether cycles may place many heads at once; not while one that fails is looked for
        self.claims: dict[str, None] = {}
        self.ready: dict[str, None] = {}  # those of them that wait for nobody; derived
        self.reserved: dict[tuple[str, str], str] = {}  # (cluster, pool) -> the workload for which nodes are kept there
        self.crowded: dict[str, None] = {}  # pools in which others may have to be reserved for now; derived
        self.hungry: dict[str, None] = {}  # services that may lack replicas; derived, one too many does no harm
        self.elastic: dict[str, None] = {}  # elastic gangs that have a place; derived, one too many does no harm
        self.short: dict[str, None] = {}  # gangs of which replicas are lost; derived
        self.orphans: dict[tuple[str, str], Orphan] = {}  # (cluster, id) -> what is held there without a row here
        self.freed: dict[tuple[str, str], Freed] = {}  # derived: without it, everything is tried
        self.relented: dict[str, None] = {}  # pools in which somebody wants less than before; derived, likewise
        self.usual: Usual = {}  # how long what completed ran, for estimates alone
        self.standings: dict[str, Kept] = {}  # of node pools; held against the books whenever one is asked for
        self.waiting = Stretches()
        self.timers = Timers()
        self.reopenings = Timers()  # node pools of which a node takes work again; derived
        self.over = Timers()  # workloads that are over, by when they ended or were looked at last; derived
        self.decisions: list[Taken] = []
        self.touched = Touched()
        self.oddities: list[str] = []  # what reports of this transaction said that cannot be true
        self.dropped_inventories: list[str] = []  # inventories in parts that this transaction gave up
        self.stirred: dict[str, None] = {}  # workloads of whose replicas something new is known
        self.farewell: dict[str, list[Replica]] = {}  # the replicas of runs that this transaction has cleared
        self.now = 0

    # -- small changes -----------------------------------------------------------------------------------------------

    def set(self, workload: Workload, **values: object) -> None:
        """Sets attributes of a workload, those of its course by another course."""
        if not COURSE.keys().isdisjoint(values):
            turns = {name: values.pop(name) for name in tuple(values) if name in COURSE}
            values["course"] = turned(workload.course, turns)
        self.journal.write(workload, values)
        self.touched.workloads[workload.id] = None

    def set_replica(self, replica: Replica, **values: object) -> None:
        """Sets attributes of a replica."""
        self.journal.write(replica, values)
        self.touched.replicas[replica.holder] = None

    def decide(self, decision: Taken) -> None:
        """Tells the outside."""
        self.decisions.append(decision)

    def find(self, workload_id: str) -> Workload:
        """The workload, made in Creating where nothing was heard of it yet."""
        known = self.workloads.get(workload_id)
        return self.enter(Workload(workload_id, submitted=self.now)) if known is None else known

    def enter(self, workload: Workload) -> Workload:
        """Takes a workload of which nothing was heard yet into the books."""
        self.journal.put(self.workloads, workload.id, workload)
        self.touched.workloads[workload.id] = None
        return workload

    def rewrite(self, workload: Workload) -> None:
        """Has the workload's record on its cluster's topic written anew."""
        self.set(workload, record=workload.record + 1)
        self.decide(Assign(workload.cluster, workload.id))

    def tell(self, workload: Workload, reason: Reason) -> None:
        """Tells the outside why a workload waits: where it is new, and at most once a minute."""
        if workload.told is None:
            pool = workload.request.pools[0] if workload.request and workload.request.pools else ""
            self.decide(Queued(workload.id, pool, workload.queued))
        elif workload.told is reason.code or workload.told_at + WAITING_EVERY > self.now:
            return
        self.set(workload, told=reason.code, told_at=self.now)
        self.decide(Waiting(workload.id, reason))

    # -- replicas ----------------------------------------------------------------------------------------------------

    def rebook(self, workload: Workload, request: Request) -> None:
        """Gives a workload another request; what it holds is charged as that one says."""
        held = [replica.grant for replica in workload.everyone() if replica.accounted]
        for grant in held:
            self.account(workload, workload.pool, (grant,), -1)
        self.set(workload, request=request)
        for grant in held:
            self.account(workload, workload.pool, (grant,))

    def take(self, workload: Workload, replicas: Sequence[Replica]) -> None:
        """Puts replicas into the books whose grants are charged to the inventory already: one change for all of them.

        All are of those without which the workload does not run, or all are surplus.
        """
        self.enter_pool(workload)
        if not replicas:
            return
        first = replicas[0].holder
        surplus = workload.beyond(first.role, first.rank)
        self.journal.put_all(workload.replicas, {(r.holder.role, r.holder.rank): r for r in replicas})
        self._pass_time(workload, workload.pool)
        amount = amount_of(replica.grant for replica in replicas)
        self.queues.charge(owner_of(workload, surplus=surplus), workload.pool, amount, charges=len(replicas))
        self.touched.replicas.update(dict.fromkeys(replica.holder for replica in replicas))

    def enter_pool(self, workload: Workload) -> None:
        """Notes that the workload holds something in its pool."""
        place = (workload.cluster, workload.pool, workload.project)
        members = self.placed.get(place)
        if members is None:
            members = {}
            self.journal.put(self.placed, place, members)
        if workload.id not in members:
            self.journal.put(members, workload.id, None)

    def account(
        self, workload: Workload, pool: str, grants: Iterable[Grant], times: int = 1, *, surplus: bool = False
    ) -> None:
        """Charges grants to the workload's project, department and user, as one charge; or takes them back (-1)."""
        self._pass_time(workload, pool)
        self.queues.charge(owner_of(workload, surplus=surplus), pool, amount_of(grants), times)

    def _pass_time(self, workload: Workload, pool: str) -> None:
        """Counts what the workload's project has held there until now, where past use counts."""
        if self.limits.usage_weight:
            self.queues.settle(workload.project, pool, self.now, self.limits.usage_half_life)
            self.touched.usage[workload.project, pool] = None

    def unaccount(self, workload: Workload, replica: Replica) -> None:
        """Takes a replica out of its project's accounts, where it still is in them."""
        if replica.accounted:
            self._discharge(workload, replica)
            self.set_replica(replica, accounted=False)

    def _discharge(self, workload: Workload, replica: Replica) -> None:
        surplus, grant = workload.beyond(replica.holder.role, replica.holder.rank), replica.grant
        self._pass_time(workload, workload.pool)
        amount = new(Amount, (grant.charge, grant.cpu, grant.memory))
        self.queues.charge(owner_of(workload, surplus=surplus), workload.pool, amount, -1)

    def give_back(self, workload: Workload, replica: Replica) -> None:
        """Returns what a replica held: the one way in which capacity comes back."""
        self.inventory.release(replica.holder, replica.node)
        node = self.inventory.nodes.get(replica.node)
        if node is not None and not node.present and not node.entries and not node.ordered:
            self.inventory.drop_node(replica.node)
            self.touched.nodes[replica.node] = None
        if replica.accounted:
            self._discharge(workload, replica)
        self.journal.keep(replica, gone=replica.gone, kept=replica.kept, accounted=replica.accounted)
        replica.gone, replica.kept, replica.accounted = True, False, False
        self.touched.replicas[replica.holder] = None
        self.free(workload.project, workload.cluster, workload.pool, replica.node)

    def free(self, project: str, cluster: str, pool: str, node: tuple[str, str]) -> None:
        """Notes that a project gave something of a node back; who could use it is woken by the next cycle."""
        freed = self.freed.get((cluster, pool))
        if freed is None:
            freed = self.freed[cluster, pool] = Freed({}, {})
        freed.nodes[node] = None
        freed.projects[project] = None
        there = self.inventory.nodes.get(node)
        if there is not None and there.pool != pool:  # it has moved since; who waits for it waits there
            self.freed.setdefault((cluster, there.pool), Freed({}, {})).nodes[node] = None

    def clear_run(self, workload: Workload) -> None:
        """Forgets the replicas of a run of which nothing is left."""
        # How they ended is told by the event of this transaction, which is made after they are forgotten.
        self.farewell[workload.id] = workload.everyone()
        for replica in workload.replicas.values():
            self.touched.replicas[replica.holder] = None
        self.journal.keep(workload, replicas=workload.replicas)
        workload.replicas = {}
        self.touched.workloads[workload.id] = None
        if workload.replacements or workload.below_since or workload.calm_since or workload.resized:
            self.set(workload, replacements={}, failures={}, below_since=0, calm_since=0, resized=0)
        self.leave_pool(workload)

    def depart(self, workload: Workload) -> None:
        """All or part of the workload is on its way out from now on."""
        self.departing.begin(workload)
        self.look_again(workload)

    def look_again(self, workload: Workload) -> None:
        """The workload may be asked to leave from now on, or no longer."""
        for replica in workload.everyone():
            self.inventory.look_again(replica.node)

    def relent(self, workload: Workload) -> None:
        """Notes that what it wanted where it waited is wanted there no longer; the next cycle wakes whom that helps."""
        if workload.request is not None:
            self.relented.update(dict.fromkeys(workload.request.pools[:1]))

    def entered(self, workload: Workload, pool: str) -> None:
        """Notes where it has or gets its place: in another pool than the one that it was counted in, it wants less."""
        if workload.request is not None and workload.request.pools[:1] != (pool,):
            self.relent(workload)

    def may_yield_again(self, workload: Workload) -> None:
        """Nobody could evict it while it paused: who was refused meanwhile is tried, as where it came anew."""
        if workload.request is not None and workload.request.preemptible:
            self.waiting.wake_higher(workload.project, workload.pool, workload.request.priority)
            self.queues.risen[workload.project, workload.pool] = None

    def leave_pool(self, workload: Workload) -> None:
        """Notes that the workload holds nothing in its pool any more."""
        members = self.placed.get((workload.cluster, workload.pool, workload.project))
        if members is not None:
            self.journal.drop(members, workload.id)
        for kind in (self.hungry, self.short, self.elastic):
            if workload.id in kind:
                self.journal.drop(kind, workload.id)
        self.departing.end(workload.id)

    def retire(self) -> None:
        """Lets workloads go that have been over for a while; their rows are kept apart, and bring them back."""
        due = self.over.due(self.now - RETIRE_AFTER, RETIRE_AT_ONCE)
        for workload in [w for w in map(self.workloads.get, due) if w is not None and w.phase in FINAL]:
            aside = workload.id in self.quarantined
            if workload.everyone() or workload.claim or (aside and workload.phase is not Phase.DELETED):
                self.over.at(self.now, workload.id)
                self.note_times(workload)
                continue
            if self.journal.drop(self.quarantined, workload.id) is not None:
                self.touched.quarantined[workload.id] = None
            self.journal.drop(self.workloads, workload.id)
            self.touched.retired[workload.id] = delete_at(workload)

    def revive(self, workload: Workload) -> None:
        """Takes a workload back that had been let go: something is said of it, or it is to be deleted by itself."""
        self.journal.put(self.workloads, workload.id, workload)
        self.touched.workloads[workload.id] = None
        self.touched.requests[workload.id] = None
        self.over.at(self.now, workload.id)
        self.watch(workload)

    # -- derived -----------------------------------------------------------------------------------------------------

    def watch(self, workload: Workload) -> None:
        """Puts a workload into the queue and the timers, wherever it belongs now."""
        self.note_times(workload)
        if self.is_ready(workload):
            self.waiting.add(workload)

    def is_ready(self, workload: Workload) -> bool:
        """Whether it waits for nothing but a place."""
        if workload.id in self.quarantined:
            return False
        return workload.phase in WAITING and workload.claim is None and workload.not_before <= self.now

    def attends(self, workload_id: str) -> bool:
        """Notes that the cycle looks at a workload from here on; False for one that is set aside."""
        self.attending = workload_id
        return workload_id not in self.quarantined

    def attends_place(self, place: str) -> bool:
        """Note that the cycle looks at a node pool or cluster from here on; False for one that is set aside."""
        self.attending, self.attending_place = "", place
        return place not in self.places_aside

    def note_times(self, workload: Workload) -> None:
        """Puts a workload into the timers alone."""
        for at in self.times_of(workload):
            self.timers.at(at, workload.id)

    def times_of(self, workload: Workload) -> Iterator[int]:
        """When a workload has to be looked at, as far as is known now."""
        return times_of(workload, self.now, self.limits, self.due)

    def watch_node(self, node: Node) -> None:
        """Notes when a node that has to be empty for a while takes work again."""
        for _, end in node.windows:
            if end > self.now:
                self.reopenings.at(end, node.pool)

    def due(self, workload: Workload) -> Due | None:
        """When a running workload has to go by time alone, and why; None: never."""
        rules = rules_of(self.queues, workload)
        return next_due(workload, rules, self.inventory.nodes, self.limits.grace)

    def leaving(self, workload: Workload) -> bool:
        """Whether what the workload holds, or part of it, is on its way back; a restart may keep its devices."""
        if workload.phase in ACTIVE:
            return bool(workload.leaving)
        if workload.ending is Ending.RESTART:
            return False  # promised to another, the devices that it keeps would be given twice
        return workload.phase in RELEASING or workload.phase in OVER
