"""What comes in over Kafka, as the handlers see it: muster.submissions and muster.tenancy.

Holds: what is no submission of ours is rejected with a reason; types that policy does not care for are let go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.events.v1 import submission_pb2 as events
from muster.tenancy.v1 import tenancy_pb2
from muster_chassis.codec import MessageDecoder
from muster_chassis.events import LARGEST_VERSION, Event, Reject
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_policy.handlers.judging import Batch, Judging
from muster_policy.ports import Department, Project, Submission

_PROJECT: Final = "project/"
_DEPARTMENT: Final = "department/"

DECODER: Final = MessageDecoder(
    types=[
        events.WorkloadSubmitted,
        events.SpecChanged,
        events.SuspendRequested,
        events.ResumeRequested,
        events.DeletionRequested,
        events.WorkloadArchived,
        events.DepartmentChanged,
        events.ProjectChanged,
        events.NodePoolChanged,
        events.TemplateChanged,
    ],
    wants=[
        events.WorkloadSubmitted,
        events.SpecChanged,
        events.DeletionRequested,
        events.WorkloadArchived,
        events.DepartmentChanged,
        events.ProjectChanged,
    ],
)


class Stream:
    """Turns a batch of events into one call of the handlers."""

    def __init__(self, handlers: Judging) -> None:
        self._handlers = handlers

    async def __call__(self, unit: Unit, received: Sequence[Event]) -> None:
        """Handles one batch within its transaction. Raises Reject for an event that is none of ours."""
        batch = Batch()
        for event in received:
            match event.message:
                case events.WorkloadSubmitted() as submitted:
                    batch.submissions.append(_submission(submitted, event))
                case events.SpecChanged(submitted=submitted):
                    batch.submissions.append(_submission(submitted, event))
                case events.DeletionRequested(workload_id=workload) | events.WorkloadArchived(workload_id=workload):
                    batch.deletions.append(_checked(workload))
                case events.ProjectChanged(project=project):
                    batch.projects.append(_project(project))
                case events.DepartmentChanged(department=department):
                    version, number = _bounded(department.version, "version"), _bounded(department.id, "id")
                    batch.departments.append(Department(department.name, version, number))
                case None if event.tombstone and event.origin.topic == TENANCY.name:
                    _gone(event, batch)
                case _:
                    pass
        await self._handlers.on_batch(unit, batch)


def _submission(submitted: events.WorkloadSubmitted, event: Event) -> Submission:
    _checked(submitted.workload_id)
    _bounded(submitted.generation, "generation")
    _bounded(submitted.tenancy_version, "tenancy_version")
    if not submitted.project:
        raise Reject(f"the submission of {submitted.workload_id} names no project")
    return Submission(submitted, event.traceparent)


def _checked(workload: str) -> str:
    if not is_uuid(workload):
        raise Reject(f"workload_id is {workload[:60]!r}: expected a UUID")
    return workload


def _bounded(number: int, what: str) -> int:
    if number > LARGEST_VERSION:
        raise Reject(f"{what} is {number}: expected at most {LARGEST_VERSION}")
    return number


def _project(project: tenancy_pb2.Project) -> Project:
    return Project(
        project.name,
        _bounded(project.version, "version"),
        tuple(project.default_node_pools),
        id=_bounded(project.id, "id"),
        department=project.department,
        home_cluster=project.home_cluster,
        namespace=project.namespace,
    )


def _gone(event: Event, batch: Batch) -> None:
    key = (event.origin.key or b"").decode("utf-8", "replace")
    if key.startswith(_PROJECT):
        batch.projects.append(Project(key.removeprefix(_PROJECT), 0, (), gone=True))
    elif key.startswith(_DEPARTMENT):
        batch.departments.append(Department(key.removeprefix(_DEPARTMENT), 0, gone=True))
