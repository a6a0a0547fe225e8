"""What comes in over Kafka, as the handlers see it: muster.submissions and muster.tenancy.

Holds: what is no submission of ours is rejected with a reason; types that policy does not care for are let go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.events.v1 import submission_pb2 as events
from muster_chassis.codec import MessageDecoder
from muster_chassis.events import LARGEST_VERSION, Event, Reject
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_policy.handlers import Batch, Handlers
from muster_policy.ports import Project, Submission

_PROJECT: Final = "project/"

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
        events.ProjectChanged,
    ],
)


class Stream:
    """Turns a batch of events into one call of the handlers."""

    def __init__(self, handlers: Handlers) -> None:
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
                    pools = tuple(project.default_node_pools)
                    batch.projects.append(Project(project.name, _bounded(project.version, "version"), pools))
                case None if event.tombstone and event.origin.topic == TENANCY.name:
                    batch.projects.extend(_gone(event))
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


def _gone(event: Event) -> list[Project]:
    key = (event.origin.key or b"").decode("utf-8", "replace")
    return [Project(key.removeprefix(_PROJECT), 0, (), gone=True)] if key.startswith(_PROJECT) else []
