"""Names of other workloads in what a caller is shown, filled in by the caller's rights.

Called by every method that shows workloads or their histories.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.workload.v1 import workload_pb2 as wl
from muster_kernel.reasons import OTHER
from muster_submission.adapters.reading import Reading
from muster_submission.domain.others import Other, filled

Scope = frozenset[str] | None
"""The projects whose workloads the caller may read; None: all."""


async def name_others(reading: Reading, shown: Iterable[wl.Workload], scope: Scope) -> None:
    """Writes into reasons whom they are about. One question for all of them, and none where no reason is about one."""
    asked = {workload.id: workload for workload in shown if OTHER in workload.reason.message}
    if not asked:
        return
    for workload_id, other in (await reading.others(asked)).items():
        name_other(asked[workload_id].reason, other, scope)


def name_other(reason: wl.Reason, other: Other | None, scope: Scope) -> None:
    """Writes into a reason whom it is about."""
    reason.message = filled(reason.message, other, scope)
    if other is not None and other.seen(scope):
        reason.other_workload_id = other.id
