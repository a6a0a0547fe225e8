"""The values that reconciling works with: what should run, what is seen, and how a replica stands.

Made by `stream.py` out of protobuf (the desired side) and by a back end (the observed side); read by everything in
`domain`. Holds: a replica's name is its identity (architecture rule 6), so the same plan made twice collides instead
of doubling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

from muster_cluster_agent.domain.budgets import Limits, Spent
from muster_cluster_agent.domain.container import Container

WORKER: Final = "worker"
RunKey = tuple[int, int]  # (generation, attempt): later ones compare greater
Slots = tuple[tuple[str, int], ...]
"""Units of resources that a cluster counts; an empty name stands for the one whose units are whole devices."""


class Pattern(StrEnum):
    """How the replicas of a workload belong together."""

    SINGLE = "single"
    TRIALS = "trials"
    GANG = "gang"
    MPI = "mpi"
    SERVICE = "service"


class Framework(StrEnum):
    """How the replicas of a gang find each other; the values are the language's words for jobType."""

    PYTORCH = "PyTorch"
    TF = "TF"
    XGBOOST = "XGBoost"
    JAX = "JAX"
    MPI = "MPI"
    COLOSSALAI = "ColossalAI"


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG slice: profile such as 1g.5gb, first memory slot, and its own UUID where it exists already."""

    profile: str
    start: int
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """What a replica holds of one device: all of it, thousandths, bytes, or a slice. Exactly one is set."""

    device: str
    whole: bool = False
    portion_milli: int = 0
    memory_bytes: int = 0
    slice: Slice | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """How to tell that a server can serve: HTTP GET on `path`, or a TCP connection where it is empty.

    Times in seconds; 0: the back end's own. successes, failures: how many in a row change the mind. host: the Host
    header; the question itself always goes to the replica.
    """

    path: str = ""
    port: int = 0
    delay: float = 0.0
    period: float = 0.0
    timeout: float = 0.0
    successes: int = 1
    failures: int = 3
    tls: bool = False
    host: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """What the replicas of one role run: command and arguments are one string each, as the language has them."""

    command: str = ""
    args: str = ""
    env: tuple[tuple[str, str], ...] = ()
    working_dir: str = ""
    ports: tuple[int, ...] = ()
    probe: Probe | None = None
    limits: Limits = field(default_factory=Limits)
    container: Container | None = None  # of a back end that makes containers of images


@dataclass(frozen=True, slots=True)
class Run:
    """Replicas of one role on one node with consecutive indices. `shares`: one entry a replica, or none at all."""

    role: str
    first_index: int
    count: int
    node: str
    k: int = 0
    shares: tuple[tuple[Share, ...], ...] = ()
    slots: Slots = ()


@dataclass(frozen=True, slots=True)
class Revision:
    """One spec and where its replicas run."""

    generation: int
    attempt: int
    pattern: Pattern
    template: Template
    runs: tuple[Run, ...]
    master: Template | None = None
    slots_per_worker: int = 1
    processes: int = 0
    framework: Framework = Framework.PYTORCH  # of a gang
    # Replicas that still run when the deciding one has succeeded are stopped at once (cleanPodPolicy All and Running).
    cleaned: bool = False
    without_effect: str = ""  # a sentence about what the spec sets and has no effect here
    # Elastic: the workers that it needs (the ones with the lowest indices), and to how many it may grow; 0: it is not.
    least: int = 0
    most: int = 0

    @property
    def key(self) -> RunKey:
        """What orders revisions of one workload."""
        return (self.generation, self.attempt)

    def spares(self, role: str, index: int) -> bool:
        """Whether the gang can do without that replica."""
        return bool(self.most) and role == WORKER and index >= self.least


@dataclass(frozen=True, slots=True)
class Assignment:
    """What should run of a workload here. `grace` in seconds, `start_deadline` in seconds since 1970 (None: none).

    leaving: replicas of the newest revision that are no longer wanted, and of which GONE is waited for.
    """

    workload_id: str
    epoch: int
    instance: str
    revision: int
    revisions: tuple[Revision, ...]
    project: str = ""
    namespace: str = ""
    name: str = ""
    grace: float = 30.0
    start_deadline: float | None = None
    leaving: tuple[Run, ...] = ()

    @property
    def newest(self) -> Revision:
        """The revision that the workload is meant to end with."""
        return self.revisions[-1]


@dataclass(frozen=True, slots=True)
class Release:
    """The tombstone: nothing of the workload up to this run may stay."""

    workload_id: str
    epoch: int
    generation: int
    attempt: int
    grace: float
    reason: str

    @property
    def key(self) -> RunKey:
        """Runs up to and including this one are released."""
        return (self.generation, self.attempt)


def is_stale(record: Assignment | Release, newest: Assignment | Release | None) -> bool:
    """Whether a record would undo a newer one of the same epoch. newest: the last that was obeyed for the workload.

    Records of one workload come in the order in which the scheduler wrote them, so that an older one is a copy. Of two
    epochs the caller knows the higher one.
    """
    if newest is None or newest.epoch != record.epoch:
        return False
    match record, newest:
        case Assignment(), Assignment():
            return record.revision < newest.revision
        case Assignment(), Release():
            return record.newest.key <= newest.key
        case Release(), Assignment():
            return record.key < newest.newest.key
        case Release(), Release():
            return record.key < newest.key
    return False


class NodeHealth(Enum):
    """How a node answers."""

    UP = "up"
    SILENT = "silent"
    LOST = "lost"  # silent for so long that it counts as gone for good
    OUT_OF_SERVICE = "out-of-service"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as reconciling needs it. `devices`: UUIDs of the healthy ones."""

    name: str
    health: NodeHealth
    boot: str
    devices: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended: exit code (128 + n for signal n), and when, in seconds since 1970.

    spent: the budget that was used up before it; None where none was. disrupted: its node or its cluster ended it, and
    not it itself.
    """

    code: int
    at: float
    reason: str = ""
    spent: Spent | None = None
    disrupted: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """Which replica of which run is meant, and on which node: what every report about it begins with."""

    name: str
    workload_id: str
    generation: int
    attempt: int
    role: str
    index: int
    k: int
    node: str

    @property
    def identity(self) -> tuple[str, str, int, int, str, int, int, str]:
        """The fields above, in their order: what is told of this replica begins with them."""
        return self.name, self.workload_id, self.generation, self.attempt, self.role, self.index, self.k, self.node


class Substate(Enum):
    """What a replica that is not ready yet is doing; the values are those of the contract's Substate."""

    BINDING = 1
    PULLING = 2
    MOUNTING = 3
    INIT = 4
    STARTING = 5


@dataclass(frozen=True, slots=True)
class StartStep:
    """A step of a start. since: seconds since 1970."""

    substate: Substate
    since: float


@dataclass(frozen=True, slots=True)
class Observed(ReplicaKey):
    """A replica as the back end sees it: facts, not judgements.

    supervised: something still watches over it. boot: the boot of its node on which it was made. stop_reason: why we
    asked it to stop; empty: we did not. fault: why it could not be started or was found dead, without an end of its
    own.
    endpoints: its own addresses; service: those of the workload as a whole, where it has one. start: what it is doing
    until it is ready, where the back end can tell.
    """

    boot: str
    pattern: Pattern
    created_at: float = 0.0
    supervised: bool = True
    started_at: float | None = None
    ready: bool = False
    stop_reason: str = ""
    stop_grace: float = 0.0
    ended: Ended | None = None
    fault: str = ""
    fault_is_start: bool = False
    unasked: bool = False  # it was ended from outside, and nothing here says by whom
    gone: bool = False
    gone_at: float | None = None
    evidence: str = ""
    lost: bool = False  # it can no longer be seen, and may run
    devices: tuple[str, ...] = ()
    moved: bool = False  # these are not the devices that it was assigned
    endpoints: tuple[str, ...] = ()
    service: tuple[str, ...] = ()
    charge: int = 0  # what it holds of devices, in 1/7,000 GPU
    project: str = ""
    workload: str = ""
    folders: tuple[str, ...] = ()  # where it works: that of its run, and the one that outlives attempts
    start: StartStep | None = None

    @property
    def key(self) -> RunKey:
        """The run to which it belongs."""
        return (self.generation, self.attempt)


class State(Enum):
    """A replica's state in the order of its life; the values are those of the contract's ReplicaState."""

    CREATED = 1
    STARTING = 2
    READY = 3
    SUCCEEDED = 4
    FAILED = 5
    LOST = 6
    GONE = 7


class Failure(Enum):
    """Why a replica failed; the values are those of the contract's FailureClass."""

    NONE = 0
    OURS = 1
    INFRASTRUCTURE = 2
    START = 3
    OUT_OF_MEMORY = 4
    RETRYABLE_EXIT = 5
    EXIT = 6


@dataclass(frozen=True, slots=True)
class Status(ReplicaKey):
    """What is reported of a replica. Times in seconds since 1970."""

    state: State
    exit_code: int | None = None
    failure: Failure = Failure.NONE
    started_at: float | None = None
    finished_at: float | None = None
    evidence: str = ""
    message: str = ""
    endpoints: tuple[str, ...] = field(default=())
    start: StartStep | None = None
    devices: tuple[str, ...] = ()  # what it has, where that is not what it was assigned
