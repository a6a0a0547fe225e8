"""The operations by area; each file has `operations(parts)`, and this one lists them all.

Called by app_parts.py. A new area is a file and a line in _AREAS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from muster_submission.rest.operation import Operation
from muster_submission.rest.parts import Parts
from muster_submission.rest.routes import (
    access,
    applications,
    audit,
    clusters,
    departments,
    document,
    histories,
    kubernetes,
    lists,
    measures,
    missing,
    node_pools,
    pods,
    projects,
    tokens,
    workloads,
)

_AREAS: Final[Sequence[Callable[[Parts], list[Operation]]]] = (
    access.operations,
    applications.operations,
    audit.operations,
    clusters.operations,
    departments.operations,
    histories.operations,
    kubernetes.operations,
    lists.operations,
    measures.operations,
    node_pools.operations,
    pods.operations,
    projects.operations,
    tokens.operations,
    workloads.operations,
)


def operations(parts: Parts) -> list[Operation]:
    """Everything that the edge serves."""
    served = [one for area in _AREAS for one in area(parts)]
    return [*served, *missing.operations(served), *document.operations(served)]
