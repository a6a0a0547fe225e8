"""Runs of replicas: the one way in which columns change while something is tried, and how a run becomes grants.

A placement function reads columns and returns runs; `take` applies them to a scratch copy (or to live columns under an
undo) and `give_back` restores exactly. `grants_of` turns a run into what each replica holds of the books' node.
Holds: after `give_back` of everything taken, newest first, the columns are byte for byte what they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from muster_kernel.mig import CARDS, compute_of
from muster_kernel.quantities import GPU, MILLI, UNITS_PER_SEVENTH
from muster_scheduler.domain.asked.requests import Grant, Kind, Shape, Share, charge_of
from muster_scheduler.domain.fleet.columns import CARD_NAMES, IDLE, SHARED, TAKEN, WHOLE, Columns, media_bit
from muster_scheduler.domain.fleet.nodes import Device, Node
from muster_scheduler.domain.tuples import new


class Run(NamedTuple):
    """`replicas` replicas from index `first` on the node of that row.

    mask: bits of device slots. Whole devices: replica i takes the i-th `shape.devices` set bits. Portions and device
    memory: all replicas share the devices of the mask. Slices: `replicas` is 1, `start` has four bits a device in the
    order of the mask: its first memory slice there. Anonymous devices and CPU-only work: 0.
    """

    node: int
    first: int
    replicas: int
    mask: int = 0
    start: int = 0


Saved = tuple[int, tuple[np.ndarray, ...]]  # a row's number and its columns of TAKEN before the change


def take(columns: Columns, shape: Shape, run: Run) -> Saved:
    """Takes a run of `shape` from its row; what comes back undoes it."""
    n = run.node
    saved = n, tuple(np.copy(getattr(columns, name)[n]) for name in TAKEN)
    columns.cpu[n] -= shape.cpu * run.replicas
    columns.memory[n] -= shape.memory * run.replicas
    columns.replicas[n] -= run.replicas
    if shape.kind is Kind.WHOLE and not run.mask:
        columns.idle[n] -= shape.devices * run.replicas
    for position, slot in enumerate(slots_of(run.mask)):
        if shape.kind is Kind.SLICE:
            _take_slice(columns, shape.profile, n, slot, run.start >> 4 * position & 15)
        else:
            _take_slot(columns, shape, run, slot)
    return saved


def _take_slice(columns: Columns, profile: str, n: int, slot: int, start: int) -> None:
    model = CARD_NAMES[columns.card[n, slot]]
    columns.mask[n, slot] |= CARDS[model].profiles[profile].mask(start)
    columns.media[n, slot] |= media_bit(model, profile)


def _take_slot(columns: Columns, shape: Shape, run: Run, slot: int) -> None:
    n = run.node
    if columns.mode[n, slot] == IDLE:
        columns.idle[n] -= 1
    if shape.kind is Kind.WHOLE:
        columns.mode[n, slot] = WHOLE
        columns.milli[n, slot] = 0
        columns.bytes[n, slot] = 0
        return
    milli, amount = amounts(shape, int(columns.size[n, slot]))
    columns.mode[n, slot] = SHARED
    columns.milli[n, slot] -= milli * run.replicas
    columns.bytes[n, slot] -= amount * run.replicas


def give_back(columns: Columns, saved: Saved) -> None:
    """Undoes one `take`; several are undone newest first."""
    n, before = saved
    for name, values in zip(TAKEN, before, strict=True):
        getattr(columns, name)[n] = values


@lru_cache(maxsize=4096)
def slots_of(mask: int) -> tuple[int, ...]:
    """The device slots of a mask, lowest first; remembered, since most nodes of a fleet have the same few."""
    return tuple([slot for slot in range(mask.bit_length()) if mask >> slot & 1])


def amounts(shape: Shape, size: int) -> tuple[int, int]:
    """Milli-GPU and bytes that a portion or memory request takes of a card of `size` bytes, rounded down."""
    if shape.kind is Kind.MEMORY:
        return 0, shape.bytes
    return shape.milli, shape.milli * size // MILLI


def grants_of(node: Node, shape: Shape, run: Run) -> Iterator[Grant]:
    """What each replica of a run holds of the node, in order of index; the books take it by `Inventory.charge`."""
    if shape.kind is not Kind.WHOLE:
        yield from (grant_of(node, shape, run.mask, run.start) for _ in range(run.replicas))
        return
    devices = _devices(node, run.mask)
    for i in range(run.replicas):
        yield _whole(shape, devices[i * shape.devices : (i + 1) * shape.devices])


def grant_of(node: Node, shape: Shape, mask: int, start: int) -> Grant:
    """What one replica holds of the node by these devices; `mask` and `start` as a run has them."""
    if shape.kind is Kind.WHOLE:
        return _whole(shape, _devices(node, mask))
    if shape.kind is Kind.SLICE:
        return _slices(shape, _devices(node, mask), start)
    return _shares(shape, _devices(node, mask))


def _devices(node: Node, mask: int) -> list[Device]:
    return [node.devices[slot] for slot in slots_of(mask)]


def _whole(shape: Shape, devices: list[Device]) -> Grant:
    shares = tuple([new(Share, (device.uuid, Kind.WHOLE, MILLI, device.memory, "", 0, 0)) for device in devices])
    slots = 0 if shares else shape.devices
    return new(Grant, (shape.cpu, shape.memory, shares, slots, shape.devices * GPU, ()))


def _shares(shape: Shape, devices: list[Device]) -> Grant:
    one = shape._replace(devices=1)
    shares = tuple(Share(device.uuid, shape.kind, *amounts(shape, device.memory)) for device in devices)
    return Grant(shape.cpu, shape.memory, shares, 0, sum(charge_of(one, device.memory) for device in devices))


def _slices(shape: Shape, devices: list[Device], start: int) -> Grant:
    shares = tuple(_slice(device, shape.profile, start >> 4 * at & 15) for at, device in enumerate(devices))
    return Grant(shape.cpu, shape.memory, shares, 0, shape.devices * compute_of(shape.profile) * UNITS_PER_SEVENTH)


def _slice(device: Device, name: str, start: int) -> Share:
    card = device.card
    profile = card.profile(name) if card else None
    mask = profile.mask(start) if profile and start in profile.starts else 0
    return Share(device.uuid, Kind.SLICE, profile=name, start=start, mask=mask)
