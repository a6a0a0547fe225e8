"""What callers name, as the API takes it: drafts, references and filters.

Called by the SDK's methods. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster.api.v1 import templates_pb2, workloads_pb2
from muster.workload.v1 import workload_pb2
from muster_client.phases import Phase
from muster_client.words import phase_number
from muster_kernel.ids import is_uuid


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying a document did: `outcome` is created, unchanged or changed; the workload as it is now."""

    workload: workload_pb2.Workload
    outcome: str


@dataclass(frozen=True, slots=True)
class AppliedTemplate:
    """What applying a template did: `outcome` is created, unchanged or changed; the template as it is now."""

    template: templates_pb2.Template
    outcome: str


OUTCOMES: Final = {
    workloads_pb2.APPLY_OUTCOME_CREATED: "created",
    workloads_pb2.APPLY_OUTCOME_UNCHANGED: "unchanged",
    workloads_pb2.APPLY_OUTCOME_CHANGED: "changed",
}

Draft = workload_pb2.WorkloadSpec | str
"""What can be submitted: a typed spec, or one YAML document of the language."""


def reference_of(workload: str, project: str = "") -> workloads_pb2.WorkloadRef:
    """Which workload is meant: an id where `workload` is one, else a name within `project`."""
    if is_uuid(workload):
        return workloads_pb2.WorkloadRef(id=workload)
    return workloads_pb2.WorkloadRef(project=project, name=workload)


def draft_of(draft: Draft, project: str = "", cluster: str = "") -> workloads_pb2.WorkloadDraft:
    """A draft as the API takes it."""
    if isinstance(draft, str):
        return workloads_pb2.WorkloadDraft(project=project, cluster=cluster, yaml=draft)
    return workloads_pb2.WorkloadDraft(project=project, cluster=cluster, spec=draft)


def filter_of(
    project: str, phases: Sequence[Phase], name_prefix: str = "", *, include_deleted: bool = False
) -> workloads_pb2.WorkloadFilter:
    """Which workloads are meant, as the API takes it."""
    return workloads_pb2.WorkloadFilter(
        project=project,
        phases=[phase_number(each) for each in phases],
        name_prefix=name_prefix,
        include_deleted=include_deleted,
    )
