"""Which events may speak of a workload that has left the memory, so that its row has to be read back first.

Called by the handlers before a batch of events is applied. Pure: the rows are read by adapters/retired.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import RETIRE_AFTER
from muster_scheduler.domain.asked.workloads import SECOND

_CLOCKS: Final = 60 * SECOND
_MILLISECOND: Final = SECOND // 1000
_VERSION: Final = 14  # the place of the version's digit in an id
_OF_A_WORKLOAD: Final = (
    events.Admitted,
    events.Rejected,
    events.SuspendRequested,
    events.ResumeRequested,
    events.DeletionRequested,
)


def spoken_of(arrived: Iterable[events.Event]) -> Iterator[str]:
    """The workloads of what people and policy say, and those that an agent holds, which may have to be released.

    What an agent says of a replica of one that is over changes nothing.
    """
    for event in arrived:
        if isinstance(event, _OF_A_WORKLOAD):
            yield event.workload
        elif isinstance(event, events.AssignmentsHeld):
            yield from (held.workload for held in event.held)


def old_enough(workload_ids: Iterable[str], now: int) -> list[str]:
    """Those that may have been retired: an id has the time at which it was made. now: microseconds since 1970.

    The clock of the service that made it may differ from ours by `_CLOCKS`; an id of another sort may be of any age.
    """
    young = (now - RETIRE_AFTER + _CLOCKS) // _MILLISECOND, (now + _CLOCKS) // _MILLISECOND
    return [each for each in workload_ids if not young[0] < _made_at(each) <= young[1]]


def submitted_before(arrived: Iterable[events.Event], before: int) -> list[str]:
    """Return the workloads that an admission names and that were submitted before a time, in microseconds since 1970.

    Only an id of version 7 has the time of the submission; any other one is not old.
    """
    limit = before // _MILLISECOND
    return [
        event.workload
        for event in arrived
        if isinstance(event, events.Admitted)
        and event.workload[_VERSION : _VERSION + 1] == "7"
        and _made_at(event.workload) < limit
    ]


def _made_at(workload_id: str) -> int:
    """The milliseconds since 1970 that an id of version 7 has; for any other one some number."""
    try:
        return int(workload_id.replace("-", "")[:12], 16)
    except ValueError:
        return 0
