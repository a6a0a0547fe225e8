"""Sets of nodes by key, with a summary of the non-empty words and of the non-empty keys: kernels.

Used by the index alone. A word is 32 nodes in an int64, so that compiled and plain Python agree on every operation; a
summary has one bit a word, `used` one bit a key.
Holds: a summary's bit is set exactly where its word is not zero, a key's bit exactly where it has a node.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.fleet.columns import Bools, Ints64

_DE_BRUIJN: Final = 0x077CB531
_WORD: Final = 0xFFFFFFFF
_POSITION: Final = np.zeros(32, np.int64)
for _bit in range(32):
    _POSITION[((1 << _bit) * _DE_BRUIJN & _WORD) >> 27] = _bit


class Bitmaps(NamedTuple):
    """bits: int64[keys, words]; summary: int64[keys, words / 32]; counts: int64[keys]; used: int64[keys / 32]."""

    bits: Ints64
    summary: Ints64
    counts: Ints64
    used: Ints64


def bitmaps(keys: int, nodes: int) -> Bitmaps:
    """Empty sets of `nodes` nodes for `keys` keys."""
    words = _words(nodes)
    return Bitmaps(
        np.zeros((keys, words), np.int64),
        np.zeros((keys, _words(words)), np.int64),
        np.zeros(keys, np.int64),
        np.zeros(_words(keys), np.int64),
    )


def _words(bits: int) -> int:
    return max(1, -(-bits // 32))


def fill(sets: Bitmaps, key: int, members: Bools) -> None:
    """Makes one set anew. members: bool[nodes]."""
    sets.bits[key] = _packed(members, sets.bits.shape[1])
    sets.summary[key] = _packed(sets.bits[key] != 0, sets.summary.shape[1])
    sets.counts[key] = np.count_nonzero(members)
    bit = np.int64(1 << (key & 31))
    sets.used[key >> 5] = sets.used[key >> 5] | bit if sets.counts[key] else sets.used[key >> 5] & ~bit


def _packed(members: Bools, words: int) -> Ints64:
    padded = np.zeros(words * 32, np.bool_)
    padded[: len(members)] = members
    packed: Ints64 = padded.reshape(words, 32) @ (np.int64(1) << np.arange(32, dtype=np.int64))
    return packed


@lean
def put(sets: Bitmaps, key: int, node: int) -> None:
    """Puts a node into a set; one that is in stays in."""
    word, bit = node >> 5, 1 << (node & 31)
    before = sets.bits[key, word]
    if before & bit:
        return
    sets.bits[key, word] = before | bit
    sets.summary[key, word >> 5] |= 1 << (word & 31)
    sets.counts[key] += 1
    sets.used[key >> 5] |= 1 << (key & 31)


@lean
def drop(sets: Bitmaps, key: int, node: int) -> None:
    """Takes a node out of a set; one that is not in stays out."""
    word, bit = node >> 5, 1 << (node & 31)
    before = sets.bits[key, word]
    if not before & bit:
        return
    sets.bits[key, word] = before ^ bit
    if before == bit:
        sets.summary[key, word >> 5] &= _WORD ^ (1 << (word & 31))
    sets.counts[key] -= 1
    if sets.counts[key] == 0:
        sets.used[key >> 5] &= _WORD ^ (1 << (key & 31))


@lean
def lowest(word: int) -> int:
    """The number of the lowest set bit of a word of 32 that is not zero."""
    return int(_POSITION[((word & -word) * _DE_BRUIJN & _WORD) >> 27])


@lean
def highest(word: int) -> int:
    """The number of the highest set bit of a word of 32 that is not zero."""
    at, width = 0, 16
    while width:
        if word >> (at + width):
            at += width
        width >>= 1
    return at


@lean
def next_key(sets: Bitmaps, first: int, last: int) -> int:
    """The lowest non-empty key from `first` to `last`, both included, or -1."""
    if first > last:
        return -1
    at = first >> 5
    word = sets.used[at] & (_WORD ^ ((1 << (first & 31)) - 1))
    while word == 0:
        at += 1
        if at > last >> 5:
            return -1
        word = sets.used[at]
    key = (at << 5) + lowest(word)
    return key if key <= last else -1


@lean
def last_key(sets: Bitmaps, first: int, last: int) -> int:
    """The highest non-empty key from `first` to `last`, both included, or -1."""
    if first > last:
        return -1
    at = last >> 5
    word = sets.used[at] & ((2 << (last & 31)) - 1)
    while word == 0:
        at -= 1
        if at < first >> 5:
            return -1
        word = sets.used[at]
    key = (at << 5) + highest(word)
    return key if key >= first else -1
