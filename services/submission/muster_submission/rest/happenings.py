"""A workload's history in 2.18's two forms: events, and records of events and changes of phase.

Called by the routes of events and history. The beginning is not stored: the workload's own row tells it.
"""

from __future__ import annotations

from typing import Any, Final

from muster.workload.v1 import workload_pb2 as wl
from muster_submission.adapters.reading import Happened
from muster_submission.rest.workload_rows import Rows, cluster_of, phase_word, time

_WARNINGS: Final = frozenset({"WorkloadRejected", "WorkloadPreempted", "RequestRefused"})
_FAILED: Final = wl.PHASE_FAILED


def beginning(shown: wl.Workload) -> Happened:
    """How every workload begins."""
    at = shown.created_at.ToDatetime()
    return Happened(0, at, "WorkloadSubmitted", "acknowledged", 0, wl.PHASE_CREATING, "", "")


def event(rows: Rows, shown: wl.Workload, one: Happened) -> dict[str, Any]:
    """An event about the workload."""
    project = rows.directory.projects.get(shown.project)
    return {
        "createdAt": time(one.at),
        "id": f"{shown.id}.{one.seq}",
        "type": "Warning" if one.event in _WARNINGS or one.phase == _FAILED else "Normal",
        "clusterId": cluster_of(one.cluster or shown.cluster),
        "message": rows.said(one.text, one.other),
        "reason": one.reason or one.event,
        "source": "muster",
        "involvedObject": {
            "uid": shown.id,
            "kind": "Workload",
            "name": shown.name,
            "namespace": project.namespace if project else shown.project,
        },
    }


def record(rows: Rows, shown: wl.Workload, one: Happened) -> dict[str, Any]:
    """A record of the history: a change of phase where there was one, else an event."""
    if one.phase != one.previous:
        spec: dict[str, Any] = {
            "phaseUpdate": {"phase": phase_word(one.phase), "phaseMessage": rows.said(one.text, one.other)}
        }
        return {"meta": {"creationTimestamp": time(one.at), "type": "PhaseUpdate"}, "spec": spec}
    return {
        "meta": {"creationTimestamp": time(one.at), "type": "Event"},
        "spec": {"event": event(rows, shown, one)},
    }
