"""A workload in the scheduler's books: what it asks for, where it stands, what its replicas hold.

Changed only through the world's journal. Times are microseconds since 1970 in UTC; 0 is never.
Holds: a replica that is not gone is charged to exactly one node; nothing of an earlier attempt is left when the next
one is placed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_kernel.reasons import FailureClass, WaitingReason
from muster_scheduler.domain.asked.courses import FIRST, Course, OnCourse
from muster_scheduler.domain.asked.refusals import Refusal
from muster_scheduler.domain.asked.requests import Grant, Holder, Role
from muster_scheduler.domain.asked.terms import ANYWHERE, Terms

SECOND: Final = 1_000_000  # microseconds
_holder: Final = attrgetter("holder")


class WorkloadKind(StrEnum):
    """What kind of workload it is; inference services live by other rules than gangs."""

    WORKSPACE = "workspace"
    TRAINING = "training"
    DISTRIBUTED = "distributed"
    INFERENCE = "inference"


KIND_WORDS: Final = {kind: f"kind={kind.value.capitalize()}" for kind in WorkloadKind}
"""How a cluster's profile names a kind of workload that it refuses, beside the fields of the language."""


class ReplicaState(StrEnum):
    """A replica's life as its agent saw it. ASSIGNED: the agent has not spoken of it yet. Gone is a flag of its own."""

    ASSIGNED = "ASSIGNED"
    CREATED = "CREATED"
    STARTING = "STARTING"
    READY = "READY"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LOST = "LOST"


class Ending(Enum):
    """Why a Terminating workload is being taken down, and so what follows when all of it is gone."""

    NONE = "none"
    PREEMPTED = "preempted"
    RESTART = "restart"
    REFUSED = "refused"
    MOVED = "moved"
    FOR_GOOD = "for good"


class Trials(NamedTuple):
    """Independent runs of one command: how many have to succeed, and how many run at once at most."""

    completions: int
    at_once: int


class Stretch(NamedTuple):
    """An elastic gang: the role that may have more replicas than the gang needs, from `least` on up to `most`."""

    role: str
    least: int
    most: int


class DataLocation(NamedTuple):
    """The cluster with the data of a workload, and the clusters that its spec admits (empty: all)."""

    cluster: str
    spec_clusters: tuple[str, ...]


class Request(NamedTuple):
    """What policy admitted: all that the scheduler reads of a spec, and the spec itself as opaque bytes."""

    generation: int
    roles: tuple[Role, ...]
    pools: tuple[str, ...]
    clusters: tuple[str, ...]  # admissible ones; empty: all
    fields: frozenset[str]  # YAML names of the fields that the spec sets
    kind: WorkloadKind
    launcher_decides: bool  # MPI: the launcher's end is the workload's end
    priority: int
    preemptible: bool
    backoff_limit: int
    terminate_after_preemption: bool
    auto_deletion: int | None  # seconds
    max_scale: int
    spec: bytes
    preemption_limit: int | None = None  # preemptions that it survives; None: any number
    terms: Terms = ANYWHERE
    trials: Trials | None = None  # then `roles` is the one replica that each of them is
    stretch: Stretch | None = None  # then `roles` is what the gang needs
    replica: str = ""  # a digest of what of the spec makes a replica; empty: not known, then nothing is like it
    revision: int = 0  # the earlier generation whose replicas this one keeps; 0: it has its own
    keeps_data: bool = False  # it has volumes whose data outlives a run
    data: DataLocation | None = None  # where that data is, once a run has mounted it; `clusters` has that cluster alone
    mounts: tuple[str, ...] = ()  # objects that have to be in its cluster already, as `namespace/kind/name`
    excluded: tuple[str, ...] = ()  # clusters whose own policy objects to it

    def may_use(self, cluster: str) -> bool:
        """Whether it may run in the cluster, as far as its spec and the policies of clusters say."""
        return (not self.clusters or cluster in self.clusters) and cluster not in self.excluded

    @property
    def run(self) -> int:
        """The generation that the names of its replicas carry."""
        return self.revision or self.generation

    def keeps_replicas_of(self, other: Request) -> bool:
        """Whether a replica of the other request is one of this: they differ in how many there are, at most."""
        return bool(self.replica) and self._apart_from_scale() == other._apart_from_scale()

    def _apart_from_scale(self) -> Request:
        roles = tuple(role._replace(size=0) for role in self.roles)
        return self._replace(
            generation=0,
            revision=0,
            roles=roles,
            fields=frozenset(),
            max_scale=0,
            auto_deletion=None,
            backoff_limit=0,
            spec=b"",
        )


class News(NamedTuple):
    """What an agent has said of a replica beside its state; one value for all of which nothing was said yet."""

    failure: FailureClass = FailureClass.NONE
    exit_code: int | None = None
    name: str = ""
    message: str = ""
    endpoints: tuple[str, ...] = ()
    started: int = 0
    finished: int = 0
    substate: str = ""  # what it is doing while it starts, as the agent names it
    substate_since: int = 0


NO_NEWS: Final = News()


class Replica(msgspec.Struct, eq=False, gc=False):
    """One replica of the current or a leaving run. `kept`: gone, but its devices wait for its restart.

    Left out of garbage collections, as its holder is: nothing that it refers to refers to it.
    """

    holder: Holder
    node: tuple[str, str]
    grant: Grant
    state: ReplicaState = ReplicaState.ASSIGNED
    gone: bool = False
    kept: bool = False
    leaving: bool = False  # no longer named in the record; stays charged until it is gone
    accounted: bool = True  # counted in its project's accounts
    seen: tuple[int, int] = (0, 0)  # (start, sequence) of the last report that counted
    news: News = NO_NEWS

    @property
    def charged(self) -> bool:
        """Whether it still takes capacity."""
        return not self.gone or self.kept

    @property
    def ended(self) -> bool:
        """Whether its command has ended, however."""
        return self.gone or self.state in {ReplicaState.SUCCEEDED, ReplicaState.FAILED}


@dataclass(slots=True, eq=False)
class Workload(OnCourse):
    """One workload, from the first that was heard of it until it is deleted.

    What placing it reads and writes stands first, so that it lies together in memory: a burst of placements waits for
    each line of the cache that it is spread over.
    """

    id: str
    request: Request | None = None
    phase: Phase = Phase.CREATING
    course: Course = FIRST
    told: WaitingReason | None = None  # what was last published of why it waits; None: that it is queued neither
    cluster: str = ""
    pool: str = ""
    replicas: dict[tuple[str, int], Replica] = field(default_factory=dict)
    project: str = ""
    department: str = ""
    namespace: str = ""
    name: str = ""
    owner: str = ""
    submitted: int = 0
    queued: int = 0  # since when it waits
    told_at: int = 0
    next_trial: int = 0  # the first number that never had a place
    open_trials: tuple[int, ...] = ()  # numbers that had a place and have not succeeded, lowest first
    ran: int = 0  # how long earlier attempts held their place since it was submitted, resumed or preempted
    leaving: dict[Holder, Replica] = field(default_factory=dict)  # replaced or scaled away, not gone yet
    rolling: dict[Holder, Replica] = field(default_factory=dict)  # of the revision that is being replaced
    ending: Ending = Ending.NONE
    exits: int = 0  # restarts after the command's own exit
    faults: int = 0  # infrastructure faults in a row
    fault_at: int = 0  # elastic: when the latest of them ended a replica that the gang can do without
    trial_faults: tuple[tuple[int, int], ...] = ()  # trials that are not done, with their faults in a row
    ours: int = 0  # restarts by us
    preemptions: int = 0  # those of them that took its place away
    avoid: dict[tuple[str, str], int] = field(default_factory=dict)  # node, or cluster and "" -> until when left out
    refusals: tuple[Refusal, ...] = ()  # the last one at each place, the newest last
    calm_since: int = 0  # elastic: since when nobody waits for room in its pool; 0: somebody does, or it has all
    resized: int = 0  # elastic: when its size was last changed within this attempt
    below_since: int = 0  # since when replicas that its gang needs are lost; 0: none is
    finished: int = 0
    scale: int | None = None  # wanted replicas of an inference service, where advised
    replacements: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)  # -> (next k, not before)
    failures: dict[tuple[str, int], int] = field(default_factory=dict)  # of its command, in a row, by role and rank
    old: Request | None = None  # the request of the revision that is being replaced

    @property
    def active(self) -> bool:
        """Whether its replicas should be there."""
        return self.phase in ACTIVE

    @property
    def generation(self) -> int:
        """The generation of its spec; 0 before admission."""
        return self.request.generation if self.request else 0

    @property
    def revision(self) -> int:
        """The generation that its replicas are named by; 0 before admission."""
        return self.request.run if self.request else 0

    @property
    def inference(self) -> bool:
        """Whether it serves, and so is never completed."""
        return self.request is not None and self.request.kind is WorkloadKind.INFERENCE

    @property
    def independent(self) -> bool:
        """Whether its replicas come and go one by one: a service's and independent trials, not a gang's."""
        request = self.request
        return request is not None and (request.kind is WorkloadKind.INFERENCE or request.trials is not None)

    def beyond(self, role: str, rank: int) -> bool:
        """Whether that replica is one that its gang can do without."""
        stretch = self.request.stretch if self.request else None
        return stretch is not None and role == stretch.role and rank >= stretch.least

    @property
    def surplus_wanted(self) -> int:
        """How many replicas more than its gang needs it would use."""
        stretch = self.request.stretch if self.request else None
        return stretch.most - stretch.least if stretch is not None else 0

    def surplus(self) -> list[Replica]:
        """The replicas that its gang can do without, the first to go first: the highest index."""
        if self.request is None or self.request.stretch is None:
            return []
        return [self.replicas[key] for key in sorted(self.replicas, reverse=True) if self.beyond(*key)]

    @property
    def remaining(self) -> bool:
        """Whether anything of it may still run."""
        if self.leaving or self.rolling:
            return True
        for replica in self.replicas.values():  # noqa: SIM110 - asked at every report: any() costs twice as much
            if not replica.gone:
                return True
        return False

    def everyone(self) -> list[Replica]:
        """Its replicas of every revision and the leaving ones, in the order of their holders."""
        all_of_them = list(self.replicas.values())
        if self.rolling or self.leaving:
            all_of_them += (*self.rolling.values(), *self.leaving.values())
        if len(all_of_them) > 1:
            all_of_them.sort(key=_holder)
        return all_of_them

    def find(self, holder: Holder) -> Replica | None:
        """The replica of exactly that run, or None."""
        current = self.replicas.get((holder.role, holder.rank))
        if current is not None and current.holder == holder:
            return current
        return self.leaving.get(holder) or self.rolling.get(holder)
