"""What older documents say in a way of their own: legacy jobs, `mpi: true`, and what templates cannot say.

Called by the reader once a document's fields are read. Holds: what is lowered here is in the spec afterwards in the
form that everyone else knows, so that nobody behind the reader has to know the older one.
"""

from __future__ import annotations

from typing import Final

from muster.workload.v1 import workload_pb2
from muster_language.documents.document import Violation
from muster_language.documents.findings import Findings
from muster_language.documents.nodes import Mapping, Scalar, entry
from muster_language.documents.places import place_of
from muster_language.spec import Kind, WorkloadSpec, set_kind

LEGACY: Final = "PreviousJob"
"""The label of a document that comes from a job of the time before workloads. It marks an origin, not a kind."""


def lower(findings: Findings, root: Mapping, spec: WorkloadSpec) -> None:
    """Brings the older ways into today's form, and says what contradicts itself."""
    _legacy(root, spec)
    if spec.mpi:
        _mpi(findings, root, spec)
    if spec.usage == workload_pb2.USAGE_TEMPLATE:
        _template(findings, root, spec)


def _legacy(root: Mapping, spec: WorkloadSpec) -> None:
    metadata = entry(root, "metadata")
    labels = entry(metadata[1], "labels") if metadata and isinstance(metadata[1], Mapping) else None
    mark = entry(labels[1], LEGACY) if labels and isinstance(labels[1], Mapping) else None
    if mark is None or not isinstance(mark[1], Scalar) or any(item.label == LEGACY for item in spec.labels):
        return
    spec.labels.add(label=LEGACY, value=mark[1].text)


def _mpi(findings: Findings, root: Mapping, spec: WorkloadSpec) -> None:
    """A training with `mpi: true` is a gang that MPI starts: one rank a worker unless slotsPerWorker says more."""
    if spec.framework not in {workload_pb2.FRAMEWORK_UNSPECIFIED, workload_pb2.FRAMEWORK_MPI}:
        _say(findings, root, "spec.mpi", "mpi and this jobType exclude each other", "leave mpi out")
        return
    slots = max(spec.slots_per_worker, 1)
    if not spec.HasField("workers"):
        spec.workers = max(-(-spec.processes // slots), 1)
    set_kind(spec, Kind.DISTRIBUTED)
    spec.framework = workload_pb2.FRAMEWORK_MPI
    spec.ClearField("mpi")


def _template(findings: Findings, root: Mapping, spec: WorkloadSpec) -> None:
    wrong = {
        "spec.baseWorkload": (spec.base_workload, "a template inherits from no other template", "leave it out"),
        "spec.namePrefix": (spec.name_prefix, "a template needs a name of its own", "name: {value: ..}"),
    }
    for path, (given, message, allowed) in wrong.items():
        if given:
            _say(findings, root, path, message, allowed)


def _say(findings: Findings, root: Mapping, path: str, message: str, allowed: str) -> None:
    place = place_of(root, path, findings.moved)
    line, column = (place.line, place.column) if place else (root.line, root.column)
    findings.found.append(Violation(path, message, line, column, allowed))
