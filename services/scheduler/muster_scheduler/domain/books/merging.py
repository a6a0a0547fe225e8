"""The first of several sorted lines of places, merged: which waiting workloads of a project come next.

Called by stretches.py for a project of which several classes are worth a try. To merge hundreds of classes member by
member took as long as all else that a placement costs; here a little more than is wanted of each is sorted at once.
Holds: what comes out is the head of all the lines, merged; who is looked at follows from how many are wanted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from muster_scheduler.domain.books.classes import Place

_SPARE: Final = 2  # members of each class beyond twice its part
_FEW: Final = 128  # places that are sorted as they are: arrays of them would take longer to make


def merged(line: Callable[[int, int], Sequence[Place]], lines: int, most: int) -> tuple[list[int], list[Place]]:
    """The first `most` places of all lines in order, each with the number of its line.

    line(number, some): the first `some` places of a line in order, or all where it has no more; asked again for more
    where too many of the first are of one line.
    """
    some = min(most, 2 * most // lines + _SPARE)
    while True:
        taken = [line(number, some) for number in range(lines)]
        places = list(chain.from_iterable(taken))
        order = ranked(places)
        # Behind the last that was taken of a line there may be one that was not.
        ends = [each[-1] for each in taken if len(each) == some]
        if not ends or bisect_right(order, min(ends), key=places.__getitem__) >= most:
            break  # as it is in any case once `most` have been taken of each
        some = min(most, 2 * some)
    numbers = [number for number, each in enumerate(taken) for _ in each]
    first = order[:most]
    return [numbers[at] for at in first], [places[at] for at in first]


def ranked(places: Sequence[Place]) -> list[int]:
    """Where the places stand in their order: the number of the first, of the second..."""
    if len(places) > _FEW:
        submitted = np.array([place.submitted for place in places], np.int64)
        ranks = np.array([place.rank for place in places], np.int64)
        order = np.lexsort((submitted, ranks)) if np.ptp(ranks) else np.argsort(submitted)
        before, after = order[:-1], order[1:]
        if not ((submitted[before] == submitted[after]) & (ranks[before] == ranks[after])).any():
            return list(order.tolist())
    return sorted(range(len(places)), key=places.__getitem__)
