"""The answer about one workload, as `GET /api/v1/workloads/<kind>/{id}` has it.

Called by the routes that create and show workloads. Holds: ids are texts; the specification is the effective one as
soon as there is one; where 2.18 has no word for a value, the value stands in `additionalFields` and its member is out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.workload.v1 import workload_pb2 as wl
from muster_language.rest.bodies import answer_body
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.domain import phases
from muster_submission.domain.fleet import ANY_CLUSTER, cluster_uuid
from muster_submission.domain.progress import REFUSED
from muster_submission.rest.workload_rows import time

_PHASES: Final = {number: str(phase) for number, phase in enumerate(phases.PHASES, start=1)}
_DESIRED: Final = {number: str(desired) for number, desired in enumerate(phases.DESIRED, start=1)}


class Envelopes:
    """Makes answers."""

    def __init__(self, tenancy: PostgresTenancy) -> None:
        self._tenancy = tenancy

    async def of(self, shown: wl.Workload, *, warnings: Sequence[str] = ()) -> dict[str, Any]:
        """The answer about a workload."""
        project = await self._tenancy.project(shown.project)
        department = await self._tenancy.known_department(project.department) if project else None
        home = project.home_cluster if project else ""
        cluster = shown.cluster or shown.asked_cluster or home
        spec = shown.effective_spec if shown.HasField("effective_spec") else shown.spec
        body: dict[str, Any] = {
            "name": shown.name,
            "requestedName": shown.spec.name_prefix or shown.spec.name or shown.name,
            "workloadId": shown.id,
            "projectId": str(project.id) if project else "",
            "clusterId": cluster_uuid(cluster) if cluster else ANY_CLUSTER,
            "createdBy": shown.owner.subject,
            "createdAt": time(shown.created_at),
            "desiredPhase": _DESIRED.get(shown.desired, "Running"),
            "actualPhase": _PHASES.get(shown.phase, "Unknown"),
            **answer_body(spec),
        }
        if department is not None:
            body["departmentId"] = str(department.id)
        if warnings:
            body["warnings"] = list(warnings)
        return body


def is_gone(shown: wl.Workload, verdict: int = 0) -> bool:
    """Whether its name is free again, or about to be: deleted, asked to be deleted, or refused."""
    return shown.desired == wl.DESIRED_PHASE_DELETED or shown.phase == wl.PHASE_DELETED or verdict == REFUSED
