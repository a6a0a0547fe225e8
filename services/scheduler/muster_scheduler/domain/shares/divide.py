"""One level of queues that share one amount of one resource: what the fair share of each is.

Called by tree.py, level by level, and by the calculator. The rules are KAI-Scheduler's:

1. Every queue first gets what it deserves, as far as it wants it.
2. What is left goes rank by rank, the higher first. Within a rank in rounds: each round's amount is split by weight
   among the queues that still want something. Who wants less than its part takes what it wants; everybody else gets its
   part rounded down to whole steps, and the remainder is remembered. Another round follows as long as somebody wanted
   less than its part.
3. What rounding left goes step by step to the largest remembered remainders, rank by rank, one step each at most.

Holds: nobody gets more than it wants; a weight of 0 gets nothing beyond what is deserved; ties go to the queue that
comes first in the input, so that the answer follows from the input alone. No float takes part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

MILLION: Final = 1_000_000  # usage counts in parts per million of the capacity
_MILLI: Final = 1_000  # k counts in thousandths


class Claimant(NamedTuple):
    """One queue of a level. Amounts are in the resource's own unit; `wanted` is min(request, limit)."""

    deserved: int
    wanted: int
    weight: int = 0  # any unit, the same for the whole level
    rank: int = 0  # the higher first
    usage: int = 0  # past use as a part of the capacity, in millionths; 0 where nothing decays


class Split(NamedTuple):
    """The outcome: the share of each claimant, and what nobody could use."""

    shares: tuple[int, ...]
    left: int


def divide(total: int, claimants: Sequence[Claimant], step: int = 1, k: int = 0) -> Split:
    """Divides `total` among `claimants`. step: what shares beyond `deserved` are rounded to; k: milli, of past use.

    Where the claimants deserve and want more than `total` in sum, each still gets that, and `left` is 0.
    """
    if not k:
        most = [wanted if weight or wanted < deserved else deserved for deserved, wanted, weight, _, _ in claimants]
        left = total - sum(most)
        if left >= 0:  # there is enough for all: rounds and ranks would end here too
            return Split(tuple(most), left)
    shares = [min(each.deserved, each.wanted) for each in claimants]
    left = total - sum(shares)
    remainders: list[dict[int, int]] = []
    for members in _ranks(claimants) if left > 0 else ():
        remembered = _rounds(left, members, claimants, shares, step, k)
        left = total - sum(shares)
        remainders.append(remembered)
    for remembered in remainders:
        for index in sorted(remembered, key=lambda i: (-remembered[i], i)):
            given = max(0, min(step, left, claimants[index].wanted - shares[index]))
            shares[index] += given
            left -= given
    return Split(tuple(shares), max(0, left))


def weights(members: Sequence[int], claimants: Sequence[Claimant], k: int) -> dict[int, int]:
    """The weight of each member in this round: max(0, nW + k (nW - usage)), all times one common factor.

    nW is a member's part of the members' weights. Since usages sum to at most the capacity, the weights are not all 0
    where nW are not.
    """
    total = sum(claimants[i].weight for i in members)
    found: dict[int, int] = {}
    for i in members:
        weight = claimants[i].weight
        if weight and k:
            weight = _MILLI * MILLION * weight + k * (MILLION * weight - claimants[i].usage * total)
        found[i] = max(0, weight)
    return found


def _ranks(claimants: Sequence[Claimant]) -> Iterator[list[int]]:
    for rank in sorted({each.rank for each in claimants}, reverse=True):
        yield [i for i, each in enumerate(claimants) if each.rank == rank]


def _rounds(
    left: int, members: list[int], claimants: Sequence[Claimant], shares: list[int], step: int, k: int
) -> dict[int, int]:
    """Hands the surplus out within one rank. What is remembered: the remainders, which all have one denominator."""
    wanting = [i for i in members if claimants[i].wanted > shares[i] and claimants[i].weight]
    remembered: dict[int, int] = {}
    again = True
    while again and left > 0 and wanting:
        weight = weights(wanting, claimants, k)
        parts = sum(weight.values())
        amount, again = left, False
        for i in wanting if parts else ():
            lacks = claimants[i].wanted - shares[i]
            if lacks * parts < amount * weight[i]:
                given, again = lacks, True
                remembered.pop(i, None)
            else:
                steps, remembered[i] = divmod(amount * weight[i], parts * step)
                given = steps * step
            shares[i] += given
            left -= given
        wanting = [i for i in wanting if claimants[i].wanted > shares[i]]
    return remembered
