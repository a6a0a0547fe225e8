"""What became of a gang in an idle pool: what the index of a pool remembers of it. Values only."""

from __future__ import annotations

from typing import NamedTuple

from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.requests import Role


class Beside(NamedTuple):
    """What nodes have beside what they have enough of.

    devices: the most that a node with enough CPU and memory has; cpu (milli), memory (bytes): the most of one with
    enough devices.
    """

    devices: int = 0
    cpu: int = 0
    memory: int = 0


class Trial(NamedTuple):
    """What became of a gang in an idle pool (see placement/trial.py).

    `apart` says where it is its topology that keeps it out. `units` is what the pool has, in 1/7,000 GPU.
    `short` is the first role of which no node holds a single replica
    (None: every role fits alone); `devices`, `cpu` (milli) and `memory` (bytes) are the most that one node has of them.
    `room` is how many replicas the idle nodes hold of a gang of one role that does not fit; 0: not counted.
    `beside` is what they have beside what the short role needs. `largest_slice` is the most memory (bytes) of a slice
    where a request for GPU memory gets one; None: it shares a card. `of_models`: slices of several GPU models together
    are enough for each of its roles, where those of no one model are.
    """

    fits: bool
    apart: Reason | None
    units: int
    short: Role | None
    devices: int
    cpu: int
    memory: int
    room: int = 0
    beside: Beside = Beside()
    largest_slice: int | None = None
    of_models: bool = False
