"""The final state of a workload that ended long ago, as one event for a consumer that lacks versions of it.

The composition root uses it as the scheduler's snapshot (muster_chassis.gaps). A live workload needs no snapshot,
because all its events are in the outbox.
"""

from __future__ import annotations

from typing import Final

from muster_chassis.codec import SNAPSHOT
from muster_chassis.topics import DECISIONS
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.adapters import encoding, retired
from muster_scheduler.domain.decisions import PhaseChange

_REASONS: Final = {Phase.COMPLETED: ChangeReason.SUCCEEDED, Phase.DELETED: ChangeReason.DELETED}
_MESSAGE: Final = "it ended so; what happened before is not kept any more"


async def snapshot(unit: Unit, topic: str, workload_id: str) -> bool:
    """Publish how a workload ended; False if the scheduler has no row of it as an ended workload."""
    if topic != DECISIONS.name or not is_uuid(workload_id):
        return False
    found = await retired.find(unit.connection, workload_id, "", "")
    if found is None:
        return False
    reason = _REASONS.get(found.phase, ChangeReason.EXIT_LIMIT)
    change = PhaseChange(
        found.id, found.attempt, found.phase, found.phase, found.desired, reason, _MESSAGE, found.finished
    )
    unit.publish(DECISIONS, found.id, encoding.phase_changed(found, change, ()), headers={SNAPSHOT: "1"})
    unit.mark_ended([found.id])
    return True
