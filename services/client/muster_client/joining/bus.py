"""An agent's user of Kafka, as the stack on this machine gives it.

The stack registers how in the entry-point group `muster.bus`, so that the client imports no stack
(docs/decisions/0003).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from muster_client.errors import NotNow
from muster_client.joining.values import BusAccess

_GROUP: Final = "muster.bus"
_MAKE: Final = "agent"
_REVOKE: Final = "revoke"


def of_stack(cluster: str, *, rotate: bool = False) -> BusAccess | None:
    """The user of a cluster's agent, which is made where there is none; None: no stack is installed here.

    rotate: it gets a new password. Raises NotNow where the stack does not run.
    """
    for point in entry_points(group=_GROUP, name=_MAKE):
        try:
            return BusAccess(**point.load()(cluster, rotate=rotate))
        except ValueError as problem:
            raise NotNow(str(problem)) from None
    return None


def revoke(cluster: str) -> str:
    """Revoke the user of a cluster's agent. Return a remark for people; empty if there is none.

    Raises NotNow if the stack on this machine does not run.
    """
    for point in entry_points(group=_GROUP, name=_REVOKE):
        try:
            return str(point.load()(cluster))
        except ValueError as problem:
            raise NotNow(str(problem)) from None
    return ""
