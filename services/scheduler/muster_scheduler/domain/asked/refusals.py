"""What a cluster has not taken of a workload, and until when it is not asked again.

Kept with the workload, so that pauses grow over restarts of agents and of the scheduler. Pure values.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NEVER: Final = 1 << 62
"""Until the spec or what the cluster takes changes: microseconds since 1970, later than any clock says."""


class Refusal(NamedTuple):
    """The last refusal at one place.

    node: empty: the whole cluster. at, until: microseconds since 1970. times: how often in a row it was refused there;
    alike: how often of those with the same code and message.
    """

    cluster: str
    node: str
    code: str
    message: str
    at: int
    until: int
    times: int = 1
    alike: int = 1

    @property
    def place(self) -> tuple[str, str]:
        """What is left out: the key of a node, or a cluster with an empty name."""
        return self.cluster, self.node
