"""Refusals of a workload by clusters, and when each place is tried again.

Kept with the workload, so that pauses grow over restarts of agents and of the scheduler. Pure values.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NEVER: Final = 1 << 62
"""Until the spec or the cluster's profile changes: microseconds since 1970, later than any real time."""


class Refusal(NamedTuple):
    """The last refusal at one place.

    node: empty: the whole cluster. at, until: microseconds since 1970. times: refusals there in a row; same_message:
    those of them with the same code and message.
    """

    cluster: str
    node: str
    code: str
    message: str
    at: int
    until: int
    times: int = 1
    same_message: int = 1

    @property
    def place(self) -> tuple[str, str]:
        """What is left out: the key of a node, or a cluster with an empty name."""
        return self.cluster, self.node
