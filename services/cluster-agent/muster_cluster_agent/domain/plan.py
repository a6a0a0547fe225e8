"""Which replicas a revision consists of: names, roles, order of start, and how each is launched.

Called by reconcile for every assignment. Pure: addresses and paths come later (`domain.launch`), since only the back
end knows them. Holds: the same revision always gives the same plans; a plan that must wait names the replicas that
have to be READY first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from muster_cluster_agent.domain.budgets import Limits
from muster_cluster_agent.domain.container import Container, ExposedPort, ServedPort
from muster_cluster_agent.domain.model import (
    Assignment,
    Framework,
    Pattern,
    Probe,
    ReplicaKey,
    Revision,
    Run,
    RunKey,
    Share,
    Slots,
    Template,
)
from muster_cluster_agent.domain.probes import probe_of
from muster_kernel import ids
from muster_kernel.slots import mig_profile
from muster_kernel.torchrun import torchrun_of
from muster_kernel.words import split

LAUNCHERS: Final = frozenset({"launcher", "master"})
_MPIRUN: Final = frozenset({"mpirun", "mpiexec", "orterun"})


class InvalidCommand(ValueError):
    """The command cannot be split into words, or there is none."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The user's command as it stands. entry_point: the words are arguments to the image's own entry point."""

    argv: tuple[str, ...]
    entry_point: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """The user's command as one of a gang: its framework finds the others by the variables that it is given."""

    argv: tuple[str, ...]
    rank: int
    framework: Framework
    entry_point: bool = False


@dataclass(frozen=True, slots=True)
class Torchrun:
    """torchrun through the wrapper that keeps the true exit code.

    `argv`: torchrun's own arguments; `python`: the interpreter whose torch it is, empty: the back end's own. `most`: to
    how many nodes it may grow, from `nodes` on; 0: it does not.
    """

    argv: tuple[str, ...]
    rank: int
    nodes: int
    processes: int
    python: str = ""
    most: int = 0


@dataclass(frozen=True, slots=True)
class MpiWorker:
    """A worker that executes what mpirun sends it."""

    slots: int


@dataclass(frozen=True, slots=True)
class MpiLauncher:
    """mpirun over the workers. wrap: the user gave the ranks' command, and mpirun is put before it."""

    argv: tuple[str, ...]
    hosts: tuple[tuple[str, int], ...]
    ranks: int
    wrap: bool


@dataclass(frozen=True, slots=True)
class TorchLauncher:
    """One torchrun a worker, started through the workers' daemons, so that a launcher decides (ColossalAI)."""

    calls: tuple[tuple[str, Torchrun], ...]  # the worker's name, and what it runs


Launch = Plain | Peer | Torchrun | MpiWorker | MpiLauncher | TorchLauncher


@dataclass(frozen=True, slots=True)
class ReplicaPlan(ReplicaKey):
    """One replica as it should be. `gang`: the base name of its run, shared by all replicas that meet each other.

    members: role and index of each replica of a gang, in the order of their ranks; empty where it is no gang.
    served: the ports of all roles of its revision, by which the workload is reached. exposed: those from outside.
    host_network: some role of its revision uses the network of its node, so that its members meet there.
    credentials: variables whose values no description of the replica may show. checkout_credentials: those of the
    container's checkouts, by the checkout's number and the variable.
    """

    gang: str
    project: str
    workload: str
    pattern: Pattern
    launch: Launch
    env: tuple[tuple[str, str], ...]
    working_dir: str
    ports: tuple[int, ...]
    probe: Probe | None
    shares: tuple[Share, ...]
    slots: Slots
    grace: float
    after: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    container: Container | None = None
    namespace: str = ""  # of its project, on back ends that have namespaces
    members: tuple[tuple[str, int], ...] = ()
    served: tuple[ServedPort, ...] = ()
    exposed: tuple[ExposedPort, ...] = ()
    host_network: bool = False
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    checkout_credentials: tuple[tuple[int, str, str], ...] = field(default=(), repr=False)

    @property
    def container_or_empty(self) -> Container:
        """Its container; where the spec describes none, one without an image and without volumes."""
        return self.container or Container("")


@dataclass(frozen=True, slots=True)
class _Member:
    """A replica's place: where it stands in its run and in the gang."""

    name: str
    run: Run
    index: int
    shares: tuple[Share, ...]
    rank: int


Plans = Mapping[RunKey, tuple[ReplicaPlan, ...] | str]
"""The replicas of each revision of an assignment, by its run; a text: why they cannot be planned."""


def plans_of(assignment: Assignment) -> Plans:
    """Plan all revisions of an assignment. A revision that cannot be planned keeps nothing from the others."""
    found: dict[RunKey, tuple[ReplicaPlan, ...] | str] = {}
    for revision in assignment.revisions:
        try:
            found[revision.key] = replica_plans(assignment, revision)
        except (InvalidCommand, ValueError) as error:
            found[revision.key] = str(error)
    return found


def replica_plans(assignment: Assignment, revision: Revision) -> tuple[ReplicaPlan, ...]:
    """The replicas of a revision, launchers last. Raises InvalidCommand."""
    members = _members(assignment.workload_id, revision)
    workers = [member for member in members if member.run.role not in LAUNCHERS]
    gang = revision.pattern in {Pattern.GANG, Pattern.MPI}
    ranks = tuple((member.run.role, member.index) for member in members) if gang else ()
    containers = _containers(revision, {member.run.role for member in members})
    network = any(container.host_network for container in containers)
    plans = (_plan(assignment, revision, one, workers, len(ranks)) for one in members)
    served = _served(containers)
    exposed = _exposed(containers)
    return tuple(replace(plan, members=ranks, served=served, exposed=exposed, host_network=network) for plan in plans)


def _containers(revision: Revision, roles: AbstractSet[str]) -> tuple[Container, ...]:
    """The containers of these roles, that of the role that decides first."""
    ordered = sorted(roles, key=lambda one: (one not in LAUNCHERS, one))
    found = [template_of(revision, role).container for role in ordered]
    return tuple(container for container in found if container is not None)


def _served(containers: Iterable[Container]) -> tuple[ServedPort, ...]:
    """The ports of these containers; of one container port the first counts."""
    found: dict[int, ServedPort] = {}
    for container in containers:
        for port in container.ports:
            found.setdefault(port.container, port)
    return tuple(found.values())


def _exposed(containers: Iterable[Container]) -> tuple[ExposedPort, ...]:
    """The ports of these containers that are reached from outside; of one label the first counts."""
    found: dict[str, ExposedPort] = {}
    for container in containers:
        for port in container.exposed:
            found.setdefault(port.label, port)
    return tuple(found.values())


def _members(workload_id: str, revision: Revision) -> list[_Member]:
    runs = sorted(revision.runs, key=lambda run: (_rank_order(revision.pattern, run.role), run.role, run.first_index))
    members: list[_Member] = []
    for run in runs:
        for offset in range(run.count):
            index = run.first_index + offset
            name = ids.replica_name(workload_id, revision.generation, revision.attempt, run.role, index, run.k)
            shares = run.shares[offset] if offset < len(run.shares) else ()
            members.append(_Member(name, run, index, shares, rank=len(members)))
    return members


def _rank_order(pattern: Pattern, role: str) -> int:
    """An MPI launcher starts last; the master of a torch gang is rank 0, so that its port is where the others look."""
    if role not in LAUNCHERS:
        return 1
    return 2 if pattern is Pattern.MPI else 0


def _plan(
    assignment: Assignment, revision: Revision, member: _Member, workers: list[_Member], world: int
) -> ReplicaPlan:
    template = template_of(revision, member.run.role)
    launching = revision.pattern is Pattern.MPI and member.run.role in LAUNCHERS
    return ReplicaPlan(
        name=member.name,
        gang=ids.base_name(assignment.workload_id, revision.generation, revision.attempt),
        workload_id=assignment.workload_id,
        project=assignment.project,
        workload=assignment.name,
        generation=revision.generation,
        attempt=revision.attempt,
        role=member.run.role,
        index=member.index,
        k=member.run.k,
        node=member.run.node,
        pattern=revision.pattern,
        launch=_launch(revision, member, workers, world),
        env=template.env,
        working_dir=template.working_dir,
        ports=template.ports,
        probe=probe_of(revision.pattern, template),
        shares=member.shares,
        slots=member.run.slots,
        grace=assignment.grace,
        after=tuple(worker.name for worker in workers) if launching else (),
        limits=template.limits,
        container=template.container,
        namespace=assignment.namespace,
    )


def template_of(revision: Revision, role: str) -> Template:
    """What a role runs. The master's own template is complete: policy has laid the workers' fields under it."""
    return revision.master if revision.master is not None and role in LAUNCHERS else revision.template


def _launch(revision: Revision, member: _Member, workers: list[_Member], world: int) -> Launch:
    template = template_of(revision, member.run.role)
    if revision.pattern is Pattern.MPI and member.run.role not in LAUNCHERS:
        return MpiWorker(slots=revision.slots_per_worker)
    if revision.framework is Framework.COLOSSALAI:
        return _torch_launcher(revision, workers)
    argv = words(template)
    entry_point = template.container is not None and not template.command
    if revision.pattern is Pattern.MPI:
        if entry_point:
            raise InvalidCommand("there is no command: mpirun starts the ranks' own command; set `command`")
        return _mpi_launcher(revision, argv, workers)
    if revision.pattern is Pattern.GANG:
        torchrun = revision.framework is Framework.PYTORCH and not entry_point
        torch = _torchrun(argv, member, world) if torchrun else None
        if torch is not None and revision.most:
            masters = world - len(workers)
            return replace(torch, nodes=masters + revision.least, most=masters + revision.most)
        return torch if torch is not None else Peer(argv, member.rank, revision.framework, entry_point)
    return Plain(argv, entry_point)


def words(template: Template) -> tuple[str, ...]:
    """The command and its arguments as a shell would split them. Raises InvalidCommand.

    Without a command the words are arguments to the image's entry point, where the back end has images.
    """
    try:
        argv = split(template.command) + split(template.args)
    except ValueError as error:
        raise InvalidCommand(f"the command cannot be split into words: {error}") from error
    if template.container is None and not argv:
        raise InvalidCommand(
            "there is no command: the local back end has no image whose entry point it could run; set `command`"
        )
    return argv


def _mpi_launcher(revision: Revision, argv: tuple[str, ...], workers: list[_Member]) -> MpiLauncher:
    hosts = tuple((worker.name, revision.slots_per_worker) for worker in workers)
    ranks = revision.processes or len(workers) * revision.slots_per_worker
    wrap = argv[0].rpartition("/")[2] not in _MPIRUN
    return MpiLauncher(argv=argv, hosts=hosts, ranks=ranks, wrap=wrap)


def _torchrun(argv: tuple[str, ...], member: _Member, world: int) -> Torchrun | None:
    """The command as a torchrun call, or None where it is something else."""
    torch = torchrun_of(argv)
    if torch is None:
        return None
    whole = sum(count for resource, count in member.run.slots if not mig_profile(resource))
    devices = len([share for share in member.shares if share.whole]) or whole
    return Torchrun(
        torch.arguments, member.rank, nodes=world, processes=max(1, devices), python=_python_beside(torch.python)
    )


def _python_beside(program: str) -> str:
    """The interpreter that a user's own path to torchrun or python means; empty: the back end's own."""
    folder, _, name = program.rpartition("/")
    if name.startswith("python"):
        return program
    return f"{folder}/python" if folder else ""


def _torch_launcher(revision: Revision, workers: list[_Member]) -> TorchLauncher:
    """The workers' own command on each of them, in the order of their ranks."""
    argv = words(revision.template)
    calls = []
    for rank, worker in enumerate(workers):
        torch = _torchrun(argv, replace(worker, rank=rank), len(workers))
        if torch is None:
            raise InvalidCommand(f"a launcher starts torchrun on its workers, not {argv[0]}")
        calls.append((worker.name, replace(torch, processes=max(torch.processes, revision.slots_per_worker))))
    return TorchLauncher(tuple(calls))
