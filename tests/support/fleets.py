"""Small fleets and workloads for the scheduler's tests, as plain values."""

from __future__ import annotations

from collections.abc import Iterable

from muster_kernel.quantities import GPU
from muster_kernel.reasons import FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quotas import ModelQuota, Quota, UserLimit
from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Request, Workload, WorkloadKind
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.decisions import Assign, Decision, Release
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Device, Mig, Node, NodeState
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import State

GIB = 1 << 30
START = 1_700_000_000 * SECOND


def workload_id(number: int) -> str:
    """A workload id that sorts by its number."""
    return f"00000000-0000-7000-8000-{number:012x}"


def whole(devices: int = 1, *, cpu: int = 1000, memory: int = GIB) -> Shape:
    """Whole cards."""
    return Shape(cpu, memory, Kind.WHOLE, devices)


def portion(milli: int, devices: int = 1) -> Shape:
    """A portion of each of some cards."""
    return Shape(100, GIB, Kind.PORTION, devices, milli)


def device_memory(amount: int) -> Shape:
    """Memory of one card."""
    return Shape(100, GIB, Kind.MEMORY, 1, bytes=amount)


def mig_slice(profile: str, number: int = 1) -> Shape:
    """A slice of one card, or of several."""
    return Shape(100, GIB, Kind.SLICE, number, profile=profile)


def host(cpu: int = 1000, memory: int = GIB) -> Shape:
    """No card at all."""
    return Shape(cpu, memory)


def role(shape: Shape, size: int = 1, name: str = "worker") -> Role:
    """Replicas of one shape."""
    return Role(name, size, shape, charge_of(shape))


def request(
    *roles: Role,
    generation: int = 1,
    priority: int = 50,
    preemptible: bool = True,
    pools: tuple[str, ...] = ("default",),
    clusters: tuple[str, ...] = (),
    kind: WorkloadKind = WorkloadKind.TRAINING,
    backoff_limit: int = 6,
    launcher_decides: bool = False,
    terminate_after_preemption: bool = False,
    auto_deletion: int | None = None,
    max_scale: int = 0,
    fields: frozenset[str] = frozenset(),
    preemption_limit: int | None = None,
) -> Request:
    """An admitted request; one whole card where no role is given."""
    return Request(
        generation,
        roles or (role(whole()),),
        pools,
        clusters,
        fields,
        kind,
        launcher_decides,
        priority,
        preemptible,
        backoff_limit,
        terminate_after_preemption,
        auto_deletion,
        max_scale,
        b"spec",
        preemption_limit,
    )


def devices(
    name: str, number: int, *, model: str = "A100-80GB", memory: int = 80 * GIB, mig: bool = False
) -> list[Device]:
    """Cards of a node."""
    return [Device(f"GPU-{name}-{slot}", model, memory, slot, mig=mig) for slot in range(number)]


def node(
    name: str,
    number: int = 8,
    *,
    cluster: str = "c1",
    pool: str = "default",
    cpu: int = 64_000,
    memory: int = 512 * GIB,
    state: NodeState = NodeState.READY,
    slots: int = 0,
    mig: bool = False,
    cards: list[Device] | None = None,
) -> Node:
    """A node with `number` cards (or `slots` anonymous ones)."""
    made = cards if cards is not None else devices(f"{cluster}-{name}", 0 if slots else number, mig=mig)
    for card in made:
        card.tally()
    return Node(
        cluster, name, pool, uid=f"uid-{name}", boot="b", state=state, cpu=cpu, memory=memory, devices=made, slots=slots
    )


class Fleet:
    """A state machine with an agent that does what it is told: the tests' way to talk to it."""

    def __init__(
        self, *nodes: Node, profile: Profile | None = None, quota: int = 100, limits: Limits | None = None
    ) -> None:
        """Registers the clusters of the nodes, and project `p` with a quota of GPUs in every pool of theirs."""
        self.state = State(limits)
        self.now = START
        self.sequence = 0
        self.dead_man: dict[str, int] = {}  # seconds, as the agent of a cluster reports it
        self.checked = 1.0  # the part of transactions after which the books are checked
        self._sent = 0
        self.decisions: list[Decision] = []
        clusters = sorted({each.cluster for each in nodes} or {"c1"})
        pools = sorted({each.pool for each in nodes} or {"default"})
        self.send(*(events.ClusterRegistered(cluster) for cluster in clusters))
        self.project("p", dict.fromkeys(pools, quota))
        for cluster in clusters:
            self.inventory(cluster, [each for each in nodes if each.cluster == cluster], profile=profile)

    @property
    def world(self):  # type: ignore[no-untyped-def]
        """The machine's memory."""
        return self.state.world

    def send(self, *incoming: events.Event, budget: Budget | None = None) -> list[Decision]:
        """One transaction: the events, then a cycle, then commit and check."""
        self.state.begin(self.now)
        for event in incoming:
            self.state.apply(event)
        self.state.propose(budget)
        plan = self.state.plan()
        made = list(plan.decisions)
        self.decisions += made
        self.state.commit()
        self._sent += 1
        if self._sent * self.checked % 1 < self.checked:
            self.state.check()
        return made

    def wait(self, seconds: float) -> list[Decision]:
        """Lets time pass, agents alive, and runs a cycle."""
        self.now += int(seconds * SECOND)
        return self.send(*(self.heartbeat(cluster) for cluster in sorted(self.world.clusters)))

    def heartbeat(self, cluster: str) -> events.HeartbeatSeen:
        """A fresh sign of life."""
        return events.HeartbeatSeen(cluster, self.order(cluster), self.dead_man.get(cluster, 0))

    def order(self, cluster: str = "c1", start: int = 1) -> events.Order:
        """The next place in the order of reports."""
        self.sequence += 1
        return events.Order(f"agent-{cluster}", start, self.sequence, self.now + self.sequence)

    def project(
        self,
        name: str,
        quotas: dict[str, int],
        *,
        department: str = "d",
        limit: int | None = None,
        weight: int = 1000,
        rank: int = 0,
        users: tuple[UserLimit, ...] = (),
        models: tuple[ModelQuota, ...] = (),
    ) -> None:
        """A project with whole GPUs per pool; `limit` in GPUs, `weight` in thousandths."""
        most = None if limit is None else limit * GPU
        quota = {pool: Quota(gpus * GPU, most, weight) for pool, gpus in quotas.items()}
        self.send(
            events.ProjectChanged(Project(name, department, quota, 0, rank=rank, user_limits=users, models=models))
        )

    def department(
        self, name: str, quotas: dict[str, int], *, limit: int | None = None, weight: int = 1000, rank: int = 0
    ) -> None:
        """A department with whole GPUs per pool; `limit` in GPUs, `weight` in thousandths."""
        most = None if limit is None else limit * GPU
        quota = {pool: Quota(gpus * GPU, most, weight) for pool, gpus in quotas.items()}
        self.send(events.DepartmentChanged(Department(name, quota, 0, rank=rank)))

    def inventory(self, cluster: str, nodes: Iterable[Node], *, profile: Profile | None = None) -> list[Decision]:
        """A full inventory."""
        order = self.order(cluster)
        made = profile or Profile(mig=Mig.DYNAMIC)
        return self.send(events.InventoryReported(cluster, order, True, order.sequence, made, tuple(nodes), ()))

    def submit(
        self, number: int, asked: Request | None = None, *, project: str = "p", active: bool = True, user: str = "me"
    ) -> Workload:
        """An admitted workload."""
        self.send(self.admitted(number, asked, project=project, active=active, user=user))
        return self.workload(number)

    def admitted(
        self, number: int, asked: Request | None = None, *, project: str = "p", active: bool = True, user: str = "me"
    ) -> events.Admitted:
        """The event of it."""
        submitted = self.now + number
        return events.Admitted(
            workload_id(number),
            project,
            "d",
            f"runai-{project}",
            f"w{number}",
            user,
            submitted,
            active,
            asked or request(),
        )

    def workload(self, number: int) -> Workload:
        """What the books say of it."""
        found = self.state.world.workloads[workload_id(number)]
        assert isinstance(found, Workload)
        return found

    def status(
        self,
        number: int,
        state: ReplicaState | None,
        *,
        rank: int = 0,
        role_name: str = "worker",
        gone: bool = False,
        exit_code: int | None = None,
        failure: FailureClass = FailureClass.NONE,
        k: int | None = None,
        attempt: int | None = None,
        generation: int | None = None,
        started: int = 0,
        substate: str = "",
        substate_since: int = 0,
    ) -> events.ReplicaReported:
        """A report of one replica."""
        workload = self.workload(number)
        replica = workload.replicas.get((role_name, rank))
        status = events.Status(
            role_name,
            rank,
            (replica.holder.k if replica else 0) if k is None else k,
            replica.node[1] if replica else "",
            state,
            gone,
            exit_code,
            failure,
            started=started,
            substate=substate,
            substate_since=substate_since,
        )
        cluster = workload.cluster or "c1"
        return events.ReplicaReported(
            cluster,
            self.order(cluster),
            workload.id,
            workload.generation if generation is None else generation,
            workload.attempt if attempt is None else attempt,
            status,
        )

    def report(self, number: int, state: ReplicaState, **more: object) -> list[Decision]:
        """All replicas of a workload are in that state."""
        workload = self.workload(number)
        return self.send(
            *(self.status(number, state, rank=rank, role_name=name, **more) for name, rank in sorted(workload.replicas))  # type: ignore[arg-type]
        )

    def gone(self, number: int, **more: object) -> list[Decision]:
        """All that is left of a workload is gone."""
        workload = self.workload(number)
        left = [replica.holder for replica in workload.everyone() if not replica.gone]
        return self.send(
            *(
                self.status(
                    number,
                    None,
                    rank=h.rank,
                    role_name=h.role,
                    k=h.k,
                    attempt=h.attempt,
                    generation=h.generation,
                    gone=True,
                    **more,  # type: ignore[arg-type]
                )
                for h in left
            )
        )

    def run(self, number: int) -> None:
        """Brings a placed workload to Running."""
        self.report(number, ReplicaState.STARTING)
        self.report(number, ReplicaState.READY)

    def finish(self, number: int) -> None:
        """Lets a running workload end well."""
        self.report(number, ReplicaState.SUCCEEDED, exit_code=0)
        self.gone(number, exit_code=0)

    def records(self, number: int) -> list[Assign | Release]:
        """What was written to assignment topics for a workload, in order."""
        wanted = workload_id(number)
        return [d for d in self.decisions if isinstance(d, Assign | Release) and d.workload == wanted]
