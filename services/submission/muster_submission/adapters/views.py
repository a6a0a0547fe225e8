"""Rows of the read model as the message that people get.

One list of columns, read by lists, single questions and watches alike, so that a workload looks the same everywhere.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from muster.workload.v1 import workload_pb2 as wl
from muster_language.sensitive import mask
from muster_submission.domain.others import Other

COLUMNS: Final = """
w.id::text AS id, w.project, w.name, w.kind, w.phase, w.desired, w.reason_code, w.reason_message, w.generation,
w.attempt, w.cluster, w.node_pool, w.verdict, w.judged, w.held, w.status, w.created_at, w.started_at, w.finished_at,
s.spec, s.effective_spec, s.issues, s.owner, s.origin, s.caused_by, s.asked_cluster
"""
OTHER_COLUMNS: Final = "o.id::text AS other_id, o.project AS other_project, o.name AS other_name"
"""Of the workload that a text is about, joined as o."""
SOURCE: Final = "workloads w JOIN workload_specs s ON s.workload_id = w.id"


def stamp(moment: datetime) -> Timestamp:
    """A moment as protobuf has it."""
    made = Timestamp()
    made.FromDatetime(moment)
    return made


def workload(row: Any) -> wl.Workload:
    """The workload in a row that has COLUMNS."""
    shown = wl.Workload()
    if row["status"] is not None:
        shown.MergeFromString(row["status"])
    shown.id = row["id"]
    shown.project = row["project"]
    shown.name = row["name"]
    shown.spec.MergeFromString(row["spec"])
    mask(shown.spec)
    if row["effective_spec"] is not None:
        shown.effective_spec.MergeFromString(row["effective_spec"])
        mask(shown.effective_spec)
    shown.owner.MergeFromString(row["owner"])
    shown.origin = row["origin"]
    shown.caused_by = row["caused_by"]
    shown.asked_cluster = row["asked_cluster"]
    issues = row["issues"]
    if issues != "[]":
        shown.issues.extend(json.loads(issues))
    shown.created_at.FromDatetime(row["created_at"])
    if row["started_at"] is not None:
        shown.started_at.FromDatetime(row["started_at"])
    if row["finished_at"] is not None:
        shown.finished_at.FromDatetime(row["finished_at"])
    moment(shown, row)
    return shown


def other(row: Any) -> Other | None:
    """The workload that a text is about, from a row that has OTHER_COLUMNS."""
    return Other(row["other_id"], row["other_project"], row["other_name"]) if row["other_id"] else None


def moment(shown: wl.Workload, row: Any) -> None:
    """Writes what changes about a workload, from a row of workloads or of the change log."""
    shown.phase = row["phase"]
    shown.desired = row["desired"]
    shown.generation = row["generation"]
    shown.attempt = row["attempt"]
    shown.cluster = row["cluster"]
    shown.node_pool = row["node_pool"]
    if row["reason_code"] or row["reason_message"]:
        shown.reason.code = row["reason_code"]
        shown.reason.message = row["reason_message"]
    else:
        shown.ClearField("reason")


class ChangeRow(NamedTuple):
    """One entry of the change log as it was read: `row` has the columns of `changes`."""

    seq: int
    workload_id: str
    row: Any
