"""Which statuses are still to be told, in which order, and which the bus has taken.

Called by `handlers.py` with every judged status. Pure state machine, one per agent.
Holds: a replica's end is told before its GONE, GONE is told last and not taken back, and nothing is told twice unless
`forget` was called (the bus is another one, or its answer is unknown), after which everything held is told again.
"""

from __future__ import annotations

from dataclasses import replace

from muster_cluster_agent.domain.model import Failure, State, Status


class ReportBook:
    """What was told of each replica, and what the bus acknowledged."""

    def __init__(self) -> None:
        """Nothing has been told."""
        self._told: dict[str, Status] = {}
        self._acknowledged: set[str] = set()

    def due(self, status: Status) -> tuple[Status, ...]:
        """What has to be told so that the reader knows `status`; () where nothing is new."""
        before = self._told.get(status.name)
        if before == status or (before is not None and before.state is State.GONE):
            return ()
        self._told[status.name] = status
        if status.state is not State.GONE or (before is not None and before.state in {State.SUCCEEDED, State.FAILED}):
            return (status,)
        return (_end_of(status), status)

    def acknowledge(self, status: Status) -> None:
        """The bus has the status on its disks."""
        if status.state is State.GONE:
            self._acknowledged.add(status.name)

    def has_told_gone(self, name: str) -> bool:
        """Whether the bus has acknowledged the replica's GONE."""
        return name in self._acknowledged

    def drop(self, name: str) -> None:
        """The replica was removed: nothing of it is told any more."""
        self._told.pop(name, None)
        self._acknowledged.discard(name)

    def forget(self) -> None:
        """Everything is to be told again."""
        self._told.clear()
        self._acknowledged.clear()

    def check(self) -> None:
        """Only what was told as GONE can have been acknowledged as GONE."""
        for name in self._acknowledged:
            told = self._told.get(name)
            if told is None or told.state is not State.GONE:
                raise AssertionError(f"{name} is acknowledged as gone, but was last told as {told}")


def _end_of(gone: Status) -> Status:
    """How the replica ended, as a report of its own before GONE: what restart budgets look at."""
    state = State.SUCCEEDED if gone.failure is Failure.NONE else State.FAILED
    return replace(gone, state=state, evidence="")
