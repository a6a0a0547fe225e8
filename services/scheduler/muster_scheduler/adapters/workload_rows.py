"""The form of workloads, their requests and their replicas in the database.

postgres.py uses it to write, and rebuild.py to read; rows.py has the rest of the state. A named tuple is written as an
array, and a release refuses an array that is longer than its own. So a field that is added to one is written by name,
where an older release does not read it (decisions/0011).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import asdict

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason, FailureClass, WaitingReason
from muster_scheduler.adapters.rows import copied, text
from muster_scheduler.domain.asked.courses import COURSE, FIRST, Claim, Reservation, turned
from muster_scheduler.domain.asked.refusals import Refusal
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.asked.workloads import (
    NO_NEWS,
    DataLocation,
    Ending,
    News,
    Replica,
    ReplicaState,
    Request,
    Workload,
)

_NOTHING: Final = b""


class WorkloadBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload's row, without its columns.

    Fields with their initial value are not written: in a million waiting workloads these are most fields.
    """

    department: str = ""
    namespace: str = ""
    owner: str = ""
    submitted: int = 0
    reason: ChangeReason = ChangeReason.ADMITTED
    message: str = ""
    queued: int = 0
    told: WaitingReason | None = None
    told_at: int = 0
    cluster: str = ""
    pool: str = ""
    placed: int = 0
    first_placed: int = 0
    ending: Ending = Ending.NONE
    exits: int = 0
    faults: int = 0
    ours: int = 0
    not_before: int = 0
    avoid: list[tuple[tuple[str, str], int]] = msgspec.field(default_factory=list)
    claim: Claim | None = None
    reservation: Reservation | None = None
    preempted_by: str = ""
    record: int = 0
    finished: int = 0
    scale: int | None = None
    snapshot_due: bool = False
    endpoints: tuple[str, ...] = ()
    conditions: tuple[tuple[str, bool, str, str], ...] = ()
    replacements: list[tuple[tuple[str, int], tuple[int, int]]] = msgspec.field(default_factory=list)
    failures: list[tuple[tuple[str, int], int]] = msgspec.field(default_factory=list)
    old_generation: int = 0
    preemptions: int = 0
    ran: int = 0
    next_trial: int = 0
    open_trials: tuple[int, ...] = ()
    idle_since: int = 0
    below_since: int = 0
    calm_since: int = 0
    resized: int = 0
    withdrawn: int = 0
    has_run: bool = False
    fault_at: int = 0
    trial_faults: tuple[tuple[int, int], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    told_later: WaitingReason | None = None  # in place of `told`, for a reason of LATER_REASONS


class AddedFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last fields of a request, which its array does not have."""

    keeps_data: bool = False
    data: DataLocation | None = None
    mounts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


class NewsBody(NamedTuple):
    """The array of what an agent has said of a replica; ReplicaBody has the later fields of `News`."""

    failure: FailureClass = FailureClass.NONE
    exit_code: int | None = None
    name: str = ""
    message: str = ""
    endpoints: tuple[str, ...] = ()
    started: int = 0
    finished: int = 0


_NO_NEWS: Final = NewsBody()


class ReplicaBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A replica's row, without its key."""

    node: tuple[str, str]
    grant: Grant
    state: ReplicaState = ReplicaState.ASSIGNED
    gone: bool = False
    kept: bool = False
    accounted: bool = True
    seen: tuple[int, int] = (0, 0)
    news: NewsBody = _NO_NEWS
    substate: str = ""
    substate_since: int = 0


LATER_REASONS: Final = frozenset(
    {WaitingReason.DATA_ELSEWHERE, WaitingReason.DATA_MISSING, WaitingReason.REFUSED, WaitingReason.REPLICAS_FULL}
)
"""Reasons that the last release does not know: it would refuse a row with one of them in `told`."""
_APART: Final = frozenset({"avoid", "replacements", "failures", "old_generation", "told", "told_later"})
"""Fields of a body whose form differs from the attributes of a workload."""
_PLAIN: Final = tuple(name for name in WorkloadBody.__struct_fields__ if name not in _APART)
_TURNS: Final = tuple(name for name in _PLAIN if name in COURSE)
"""Fields that belong to the course of a workload."""
_OWN: Final = tuple(name for name in _PLAIN if name not in COURSE)
_AS_SAID: Final = frozenset(
    {"department", "namespace", "owner", "submitted", "message", "queued", "told_at", "cluster", "pool", "placed"}
)
"""Fields with the same form in a body and in a workload: texts and numbers."""
_SHARED: Final = ("department", "namespace", "owner", "cluster", "pool")
"""Fields whose texts many workloads share."""
_PHASES: Final = {phase.value: phase for phase in Phase}
_WISHES: Final = {wish.value: wish for wish in DesiredPhase}
_REASONS: Final[dict[str | None, WaitingReason | None]] = {None: None, **{one.value: one for one in WaitingReason}}
_workload = msgspec.json.Decoder(WorkloadBody)
_said = msgspec.json.Decoder(dict[str, Any])
_replica = msgspec.json.Decoder(ReplicaBody)
_request = msgspec.json.Decoder(Request)
_added = msgspec.json.Decoder(AddedFields)
_NONE_ADDED: Final = AddedFields()
REQUEST_ARRAY: Final = len(Request._fields) - len(AddedFields.__struct_fields__)
"""The number of fields in a request's array."""
_PLAIN_REPLICA: Final = tuple(
    name for name in ReplicaBody.__struct_fields__ if name not in News._fields and name != "news"
)


def of_workload(workload: Workload) -> str:
    """Return a workload's body."""
    return text(
        copied(
            workload,
            WorkloadBody,
            avoid=sorted(workload.avoid.items()),
            replacements=sorted(workload.replacements.items()),
            failures=sorted(workload.failures.items()),
            old_generation=workload.old.generation if workload.old else 0,
            told=None if workload.told in LATER_REASONS else workload.told,
            told_later=workload.told if workload.told in LATER_REASONS else None,
        )
    )


def to_workload(row: Any, words: dict[str, str]) -> tuple[Workload, int]:
    """Return the workload of a row without request and replicas, and the generation of the revision that it replaces.

    words: texts that many workloads share, kept once; grows.
    """
    keep, said = words.setdefault, _said.decode(row["body"])
    told = _REASONS[said.pop("told", None) or said.pop("told_later", None)]
    for name in _SHARED:
        if name in said:
            said[name] = keep(said[name], said[name])
    plain = said if said.keys() <= _AS_SAID else {}  # a waiting workload has few fields other than its initial ones
    project, phase, desired = keep(row["project"], row["project"]), _PHASES[row["phase"]], _WISHES[row["desired"]]
    turns: dict[str, object] = {name: plain.pop(name) for name in _TURNS if name in plain}
    if desired is not FIRST.desired or row["attempt"] != FIRST.attempt:
        turns |= {"desired": desired, "attempt": row["attempt"]}
    course = turned(FIRST, turns) if turns else FIRST
    workload = Workload(
        str(row["id"]), project=project, name=row["name"], phase=phase, course=course, told=told, **plain
    )
    if plain is said:
        return workload, 0
    read = _workload.decode(row["body"])
    for name in _OWN:
        setattr(workload, name, getattr(read, name))
    for name in _SHARED:
        setattr(workload, name, said.get(name, ""))
    workload.course = turned(course, {name: getattr(read, name) for name in _TURNS})
    workload.avoid, workload.replacements = dict(read.avoid), dict(read.replacements)
    workload.failures = dict(read.failures)
    return workload, read.old_generation


def of_request(request: Request) -> tuple[str, str]:
    """Return a request's body without the spec, and its added fields; empty if all of them have their initial value."""
    added: AddedFields = copied(request, AddedFields)
    return text(request._replace(spec=_NOTHING)[:REQUEST_ARRAY]), "" if added == _NONE_ADDED else text(added)


def to_request(body: str, added: str, spec: bytes) -> Request:
    """Return the request of a row. added: empty if the row is of a release without these fields."""
    request = _request.decode(body)._replace(spec=spec)
    return request._replace(**asdict(_added.decode(added))) if added else request


def of_replica(replica: Replica) -> str:
    """Return a replica's body."""
    news = replica.news
    said = NewsBody._make(news[: len(NewsBody._fields)])
    later = {"substate": news.substate, "substate_since": news.substate_since}
    return text(copied(replica, ReplicaBody, news=said, **later))


def to_replica(row: Any) -> Replica:
    """Return the replica of a row."""
    holder = Holder(str(row["workload"]), row["generation"], row["attempt"], row["role"], row["rank"], row["k"])
    read = _replica.decode(row["body"])
    plain = {name: getattr(read, name) for name in _PLAIN_REPLICA}
    news = News(*read.news, read.substate, read.substate_since)
    return Replica(holder, leaving=row["place"] == "leaving", news=NO_NEWS if news == NO_NEWS else news, **plain)
