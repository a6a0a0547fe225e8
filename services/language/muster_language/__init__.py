"""The workload language, derived from the proto options; no I/O here.

Submission reads and checks with it, policy merges and judges with it, the client reads, writes and explains with it.
Holds: nothing about a field is said here that its catalogue row (the option on the field in `protos/`) could say.
"""

from __future__ import annotations

from muster_language.canonical import canonical, changed_fields
from muster_language.catalogue import Catalogue, Row, catalogue
from muster_language.checks.validation import check_layer
from muster_language.documents.document import Document, Violation
from muster_language.documents.reader import read
from muster_language.documents.writer import write
from muster_language.kubernetes.pods import ANY_FIELD
from muster_language.merging.derived import derive, warnings_of
from muster_language.merging.layers import Cleared, Layer, LayerName, Merged, language_layer
from muster_language.merging.merge import merge
from muster_language.merging.overlay import combine, overlay
from muster_language.resources import is_preemptible, priority_of, resource_requests
from muster_language.rules.clusters import check_clusters
from muster_language.rules.effective import check_effective
from muster_language.rules.issues import Issue
from muster_language.schemas.explain import explain, field_like
from muster_language.spec import Kind, WorkloadSpec

__all__ = [
    "ANY_FIELD",
    "Catalogue",
    "Cleared",
    "Document",
    "Issue",
    "Kind",
    "Layer",
    "LayerName",
    "Merged",
    "Row",
    "Violation",
    "WorkloadSpec",
    "canonical",
    "catalogue",
    "changed_fields",
    "check_clusters",
    "check_effective",
    "check_layer",
    "combine",
    "derive",
    "explain",
    "field_like",
    "is_preemptible",
    "language_layer",
    "merge",
    "overlay",
    "priority_of",
    "read",
    "resource_requests",
    "warnings_of",
    "write",
]
