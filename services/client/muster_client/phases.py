"""The phases of a workload as programs compare them: one enum that equals what messages carry and what people read.

`workload.phase == Phase.COMPLETED` compares numbers, `str(Phase.COMPLETED)` is `Completed`. Made from the kernel's
lifecycle and the numbers of the proto, so that a new phase is here too. Holds: every phase of the kernel has a number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from muster.workload.v1 import workload_pb2
from muster_kernel import lifecycle


class Phase(IntEnum):
    """A phase: a number as in `Workload.phase`, and a word as people read it.

    It equals the number and the word. As a key of sets and dictionaries it is the number.
    """

    CREATING = workload_pb2.PHASE_CREATING
    PENDING = workload_pb2.PHASE_PENDING
    INITIALIZING = workload_pb2.PHASE_INITIALIZING
    RUNNING = workload_pb2.PHASE_RUNNING
    DEGRADED = workload_pb2.PHASE_DEGRADED
    UPDATING = workload_pb2.PHASE_UPDATING
    TERMINATING = workload_pb2.PHASE_TERMINATING
    STOPPING = workload_pb2.PHASE_STOPPING
    STOPPED = workload_pb2.PHASE_STOPPED
    RESUMING = workload_pb2.PHASE_RESUMING
    UNKNOWN = workload_pb2.PHASE_UNKNOWN
    COMPLETED = workload_pb2.PHASE_COMPLETED
    FAILED = workload_pb2.PHASE_FAILED
    DELETING = workload_pb2.PHASE_DELETING
    DELETED = workload_pb2.PHASE_DELETED

    @property
    def word(self) -> str:
        """Such as `Completed`."""
        return lifecycle.Phase[self.name].value

    @property
    def final(self) -> bool:
        """Whether nothing happens to this generation any more, except deletion."""
        return self in TERMINAL

    def __str__(self) -> str:
        return self.word

    def __format__(self, form: str) -> str:
        return format(self.word, form)

    def __eq__(self, other: object) -> bool:
        # A word too: what compares a phase with the text that it reads must never be silently False.
        return self.word == other if isinstance(other, str) else int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = IntEnum.__hash__


def as_phase(value: int | str) -> Phase:
    """The phase of a number or a word. Raises ValueError with all that there are."""
    found = next((phase for phase in Phase if phase == value), None)
    if found is None:
        raise ValueError(f"{value!r} is no phase of a workload; they are {', '.join(map(str, Phase))}")
    return found


TERMINAL: Final = frozenset(Phase[phase.name] for phase in lifecycle.FINAL)
"""The phases after which nothing happens to this generation any more, except deletion."""
