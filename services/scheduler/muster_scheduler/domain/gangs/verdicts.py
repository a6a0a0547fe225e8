"""What the search for a gang's place says: where its roles stand, or why they stand nowhere. Values only."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from muster_scheduler.domain.fleet.taking import Run


class Placement(NamedTuple):
    """One role in its place."""

    role: str
    runs: tuple[Run, ...]


class Lack(StrEnum):
    """What a gang lacks. ROOM: replicas find none. LEVEL: no node has the label. GROUPS: a size is no multiple."""

    ROOM = "Room"
    LEVEL = "Level"
    GROUPS = "Groups"


class Refusal(NamedTuple):
    """Why a gang has no place. `room` of its `asked` replicas fit into the best domain of `level` (empty: the pool).

    GROUPS: `asked` replicas do not divide into groups of `room`. proven: there is no place; else the search ended
    before it could tell.
    """

    lack: Lack
    level: str
    asked: int
    room: int
    proven: bool = True
