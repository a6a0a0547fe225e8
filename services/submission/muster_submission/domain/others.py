"""Another workload in a stored text: named to those who may read it, and a workload of another project to the rest.

Called wherever a text leaves this service. Holds: a stored text calls it "another workload", so that a way out that
forgets to ask shows no name.
"""

from __future__ import annotations

from typing import NamedTuple

from muster_kernel.reasons import HIDDEN, OTHER


class Other(NamedTuple):
    """The workload that a text is about."""

    id: str
    project: str
    name: str

    def seen(self, scope: frozenset[str] | None) -> bool:
        """Whether a reader may know it. scope: the projects whose workloads he may read; None: all."""
        return scope is None or self.project in scope


def filled(text: str, other: Other | None, scope: frozenset[str] | None) -> str:
    """The text for a reader. other: None where it is about none, or about one that is forgotten by now."""
    if other is None:
        return text
    return text.replace(OTHER, f"{other.name} of {other.project}" if other.seen(scope) else HIDDEN)
