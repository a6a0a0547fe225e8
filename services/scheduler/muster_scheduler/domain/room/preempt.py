"""Preempt: within one project and node pool, work of higher priority takes the place of preemptible work below it.

Called by the cycle after reclaim. Non-preemptible work that is within quota may take any preemptible work of its own
project. The lower priority goes first, then the law's order.
Holds: what `search` holds; nobody of another project is touched.
"""

from __future__ import annotations

import numpy as np

from muster_scheduler.domain.room.ranking import by_priority, law_of
from muster_scheduler.domain.room.search import search
from muster_scheduler.domain.room.values import NoRoom, Obstacle, Question, Vacated


def preempt(question: Question, *, preemptible: bool) -> Vacated | NoRoom:
    """Who of the taker's own project gives way. preemptible: whether the taker itself is."""
    running, taker = question.running, question.taker
    own = running.queue == taker.queue
    rows = np.flatnonzero(own & (running.priority < taker.priority) if preemptible else own)
    if not len(rows):
        return NoRoom(Obstacle.NOTHING, (0, int(taker.units[0])))

    return search(question, by_priority(running, rows), None, law_of(running, running.priority))
