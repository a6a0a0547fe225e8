"""How fair shares moved since classes were blocked, so that only those are tried again whom it may help."""

from __future__ import annotations

from typing import NamedTuple

from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.shares.tree import Shares


class Reweighed(NamedTuple):
    """How fair shares differ from those under which classes were blocked: of whom they rose, whether a giver's fell."""

    rose: frozenset[str]
    fell: bool


def reweighed(standing: Standing, before: Shares | None, givers: frozenset[str]) -> Reweighed:
    """What became of a pool's shares since `before` (None: not known, so that everybody may have come off better)."""
    if before == standing.shares:
        return Reweighed(frozenset(), fell=False)
    rows = len(standing.queues)
    if before is None or any((a is None) != (b is None) for a, b in zip(before, standing.shares, strict=True)):
        return Reweighed(frozenset(), fell=True)
    rose: set[str] = set()
    for old, new in zip(before, standing.shares, strict=True):
        if old is None or new is None:
            continue
        if len(old) != rows:
            return Reweighed(frozenset(), fell=True)
        for queue, was, now in zip(standing.queues, old, new, strict=True):
            if now.fair > was.fair:
                rose.add(queue.name)
            elif now.fair < was.fair and queue.name in givers:
                return Reweighed(frozenset(), fell=True)
    return Reweighed(frozenset(rose), fell=False)
