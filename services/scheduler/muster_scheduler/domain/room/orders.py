"""In which order a search asks candidates to leave, beside the law's: those first whose leaving helps most each.

Called by search.py for one domain. Putting back begins at the end of an order, so who stands first is who leaves; the
law's order, by what each one loses, empties half of every card before one card is whole.
Holds: an order is a permutation of the members, ties stay as the law has them; the same members give the same orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from muster_scheduler.domain.fleet.columns import SLOTS
from muster_scheduler.domain.room.values import Bools, Ints, Running

_DEAR: Final = 1 << 60


def orders(running: Running, inside: Bools, members: Ints, won: Ints) -> Iterator[Ints]:
    """The members by their cheapest node, by their cheapest device, and by what they hold; without what is no order.

    won: int64[n], the replicas that become possible on each node once all members have left.
    """
    listed = np.zeros(len(running), np.bool_)
    listed[members] = True
    workload = np.repeat(np.arange(len(running)), np.diff(running.held.first))
    runs = np.flatnonzero(listed[workload] & inside[running.held.node])
    cards = _cards(running, workload, runs)
    for price in (_nodes(running, workload, runs, won), cards, -running.units[:, 0]):
        asked = price[members]
        if (asked != asked[:1]).any():
            ranked: Ints = members[np.argsort(asked, kind="stable")]
            yield ranked


def _nodes(running: Running, workload: Ints, runs: Ints, won: Ints) -> Ints:
    """int64[v]: the price of the cheapest node of each: workloads interrupted there, in thousandths a replica won."""
    place = running.held.node[runs]
    owner, place = _pairs(running, workload[runs], place)
    crowd = _crowd(running, owner, place, len(won))
    price = np.where(won > 0, crowd * 1000 // np.maximum(won, 1), _DEAR)
    return _least(running, owner, price[place])


def _cards(running: Running, workload: Ints, runs: Ints) -> Ints:
    """int64[v]: how many workloads are interrupted on the device of each that has fewest; none: beyond price."""
    slots = running.held.slots[runs]
    at, slot = np.nonzero(slots[:, None] >> np.arange(SLOTS) & 1)
    place = running.held.node[runs[at]] * SLOTS + slot
    owner, place = _pairs(running, workload[runs[at]], place)
    crowd = _crowd(running, owner, place, 0)
    return _least(running, owner, crowd[place])


def _pairs(running: Running, owner: Ints, place: Ints) -> tuple[Ints, Ints]:
    """Each workload once for each of its places, though it may hold several runs there."""
    found = np.unique(place * len(running) + owner)
    places, owners = np.divmod(found, len(running))
    return owners, places


def _crowd(running: Running, owner: Ints, place: Ints, places: int) -> Ints:
    return np.bincount(place, running.interrupted[owner], minlength=places).astype(np.int64)


def _least(running: Running, owner: Ints, price: Ints) -> Ints:
    found = np.full(len(running), _DEAR)
    np.minimum.at(found, owner, price)
    return found
