"""The course of a workload: what of its life is the same for all that stand alike, as one value that they share.

Read through a workload's attributes of the same names; changed by `World.set`, which gives a workload another course.
Holds: a course never changes. Of a million waiting workloads most share the first one, and those that a batch places
share the next: a placement writes one reference where it wrote fourteen fields, each of which it would have to
remember for an abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from muster_kernel.lifecycle import DesiredPhase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.requests import Grant
from muster_scheduler.domain.tuples import new


class Planned(NamedTuple):
    """Where one replica of a claim will run."""

    role: str
    rank: int
    node: tuple[str, str]
    grant: Grant


class Claim(NamedTuple):
    """Room that has been made and is being waited for."""

    cluster: str
    pool: str
    planned: tuple[Planned, ...]
    waits_for: tuple[str, ...]  # workload ids, sorted
    run: tuple[int, int] = (0, 0)  # generation and attempt that it is for


class Reservation(NamedTuple):
    """Nodes of one pool that are kept for a blocked workload until it fits somewhere.

    since: when it got them. until: by when those who are in its way will have left by their own limits; 0: nobody
    knows. beyond: whether its queues would then hold more than they deserve.
    """

    cluster: str
    pool: str
    nodes: tuple[str, ...]
    since: int
    until: int = 0
    beyond: bool = False


class Course(NamedTuple):
    """Where a workload stands in its life, beside its phase and place."""

    desired: DesiredPhase = DesiredPhase.RUNNING
    reason: ChangeReason = ChangeReason.ADMITTED
    message: str = ""
    attempt: int = 1
    placed: int = 0
    first_placed: int = 0  # first placement of this generation: START failures are bounded in time from here
    not_before: int = 0  # backoff
    claim: Claim | None = None
    reservation: Reservation | None = None
    preempted_by: str = ""
    idle_since: int = 0  # since when its GPUs stand idle, as telemetry says; 0: they do not
    record: int = 0  # revision of the assignment record
    snapshot_due: bool = False  # its cluster was silent: waits for the agent's next snapshot
    endpoints: tuple[str, ...] = ()
    conditions: tuple[tuple[str, bool, str, str], ...] = ()
    withdrawn: int = 0  # when its latest run was told to end
    has_run: bool = False  # whether all of an earlier run started: a failed start is then a fault of the fleet


FIRST: Final = Course()
COURSE: Final = {name: at for at, name in enumerate(Course._fields)}


def turned(course: Course, values: Mapping[str, object]) -> Course:
    """The course with other values; `_replace` takes three times as long. Raises KeyError for a name that it lacks."""
    fields: list[object] = list(course)
    for name, value in values.items():
        fields[COURSE[name]] = value
    return new(Course, fields)


_REASON, _MESSAGE, _RECORD = COURSE["reason"], COURSE["message"], COURSE["record"]
_WITHDRAWN: Final = COURSE["withdrawn"]


def stepped(course: Course, reason: ChangeReason, message: str, record: int) -> Course:
    """As `turned`, for who enters another phase: that is asked at every report."""
    fields: list[object] = list(course)
    fields[_REASON], fields[_MESSAGE], fields[_RECORD] = reason, message, record
    return new(Course, fields)


def taken_down(course: Course, reason: ChangeReason, message: str, now: int) -> Course:
    """As `stepped`, for who is told to end: its record is withdrawn."""
    fields: list[object] = list(course)
    fields[_REASON], fields[_MESSAGE], fields[_RECORD] = reason, message, course.record + 1
    fields[_WITHDRAWN] = now
    return new(Course, fields)


def begun(course: Course, now: int) -> Course:
    """The course of one that has its place from `now` on; nothing of an earlier run is left in it."""
    return turned(
        course,
        {
            "placed": now,
            "first_placed": course.first_placed or now,
            "not_before": 0,
            "preempted_by": "",
            "idle_since": 0,
            "snapshot_due": False,
            "endpoints": (),
            "conditions": (),
        },
    )


class OnCourse:
    """What a workload's course says, by the names that readers use."""

    __slots__ = ()
    course: Course

    @property
    def desired(self) -> DesiredPhase:
        """What its users want of it."""
        return self.course.desired

    @property
    def reason(self) -> ChangeReason:
        """Why it is in its phase."""
        return self.course.reason

    @property
    def message(self) -> str:
        """What is told beside the reason."""
        return self.course.message

    @property
    def attempt(self) -> int:
        """The number of its run, from 1."""
        return self.course.attempt

    @property
    def placed(self) -> int:
        """When its run got its place; 0: it has none yet."""
        return self.course.placed

    @property
    def first_placed(self) -> int:
        """When the first run of this generation got its place."""
        return self.course.first_placed

    @property
    def not_before(self) -> int:
        """Until when it backs off."""
        return self.course.not_before

    @property
    def claim(self) -> Claim | None:
        """The room that is being made for it."""
        return self.course.claim

    @property
    def reservation(self) -> Reservation | None:
        """The nodes that are kept for it."""
        return self.course.reservation

    @property
    def preempted_by(self) -> str:
        """Who took its place."""
        return self.course.preempted_by

    @property
    def idle_since(self) -> int:
        """Since when its GPUs stand idle; 0: they do not."""
        return self.course.idle_since

    @property
    def withdrawn(self) -> int:
        """When its latest run was told to end; 0: none was."""
        return self.course.withdrawn

    @property
    def has_run(self) -> bool:
        """Whether every replica of an earlier run started."""
        return self.course.has_run

    @property
    def record(self) -> int:
        """The revision of its assignment record."""
        return self.course.record

    @property
    def snapshot_due(self) -> bool:
        """Whether it waits for its agent's next snapshot."""
        return self.course.snapshot_due

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where it is reached."""
        return self.course.endpoints

    @property
    def conditions(self) -> tuple[tuple[str, bool, str, str], ...]:
        """What its agent says of it: type, status, reason, message."""
        return self.course.conditions
