"""What follows a commit: those in this process who wait for it, and the other instances, are told to look.

Wired by the composition root. Holds: nothing but a hint is passed on; whoever is told reads the tables, also where no
hint comes (`notifications` says why one can be lost).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_chassis.notifications import Notifications
from muster_submission.adapters.feed import Feed
from muster_submission.adapters.verdicts import Verdicts

CHANGES: Final = "changes"
"""The log of changes has grown: watches look."""
VERDICTS: Final = "verdicts"
"""Workloads were judged: calls that wait for a verdict look."""


class Commits:
    """The commits of this instance, told; and those of the others, heard."""

    def __init__(self, notifications: Notifications, feed: Feed, verdicts: Verdicts) -> None:
        self._notifications = notifications
        self._feed = feed
        self._verdicts = verdicts
        notifications.subscribe(CHANGES, feed.poke)
        notifications.subscribe(VERDICTS, verdicts.look)

    def poke(self) -> None:
        """The log of changes has grown."""
        self._feed.poke()
        self._notifications.send(CHANGES)

    def judged(self, ids: Iterable[str]) -> None:
        """These workloads have a verdict now."""
        self._verdicts.tell(ids)
        self._notifications.send(VERDICTS)
