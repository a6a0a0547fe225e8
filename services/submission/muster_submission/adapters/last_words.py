"""The end of a workload that is archived, as one event for a consumer that lacks versions of it.

The composition root uses it as submission's snapshot (muster_chassis.gaps). A workload that is not archived needs none,
because all its events are in the outbox.
"""

from __future__ import annotations

from muster.events.v1.submission_pb2 import WorkloadArchived
from muster_chassis.codec import SNAPSHOT
from muster_chassis.topics import SUBMISSIONS
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid


async def snapshot(unit: Unit, topic: str, workload_id: str) -> bool:
    """Publish that a workload is over and archived; False if the archive does not have it."""
    if topic != SUBMISSIONS.name or not is_uuid(workload_id):
        return False
    if not await unit.connection.fetchval("SELECT EXISTS (SELECT 1 FROM archive WHERE id = $1)", workload_id):
        return False
    unit.publish(SUBMISSIONS, workload_id, WorkloadArchived(workload_id=workload_id), headers={SNAPSHOT: "1"})
    unit.mark_ended([workload_id])
    return True
