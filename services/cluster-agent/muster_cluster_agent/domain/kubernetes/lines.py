"""What is written down of replicas in their run's root: why one is asked to stop, and how it ended (kubernetes.md 3.2).

The back end writes why before it deletes the pod, so that an agent that follows knows it. Where the run is released it
does not: the bus says it. It writes the end before it takes the finalizer off the pod, and reads it in place of the pod
afterwards.
Holds: a line read again is the replica as it was observed at its end; a line that cannot be read names its replica; why
a replica stops has a key of its own, so that it never replaces an end.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, Final

from muster_cluster_agent.domain.budgets import Spent
from muster_cluster_agent.domain.kubernetes.marks import run_of, run_text
from muster_cluster_agent.domain.model import Ended, Observed, Pattern

LINES_IN_SHARD: Final = 500
_TEXT_LIMIT: Final = 512  # bytes of a message: a shard of 500 lines stays below 256 KiB
REMOVED: Final = "{}"
"""The line of a replica that is removed: its name is used up as long as the run's root stands."""
_STOP: Final = "stop."  # before the name of a replica; names have no dots


@dataclass(frozen=True, slots=True)
class StopRequest:
    """What Muster asks of a pod: to stop for a reason, or to go since it could not be started (`fault`)."""

    reason: str = ""
    grace: float = 0.0
    fault: str = ""

    def text(self) -> str:
        """As it is written down."""
        return json.dumps({"reason": self.reason, "grace": self.grace, "fault": _short(self.fault)})


def stop_key(name: str) -> str:
    """Return the key of the line that says why a replica stops. Its name is the key of the line about its end."""
    return f"{_STOP}{name}"


def stopped_name(key: str) -> str:
    """Return the replica that is asked to stop by the line with that key; empty for the key of an end."""
    return key.removeprefix(_STOP) if key.startswith(_STOP) else ""


def replica_name(key: str) -> str:
    """Return the name of the replica that a line is about."""
    return stopped_name(key) or key


def stop_request_of(text: str) -> StopRequest:
    """What Muster asks of a pod; nothing where the text was edited."""
    try:
        said = json.loads(text)
        grace = float(said.get("grace", 0.0))
        found = StopRequest(str(said.get("reason", "")), grace, str(said.get("fault", "")))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return StopRequest()
    return found if 0 <= grace < math.inf else StopRequest()


def line_of(replica: Observed) -> str:
    """What is written down of a replica that is gone."""
    ended = replica.ended
    found: dict[str, Any] = {
        "workload": replica.workload_id,
        "run": run_text(replica.key),
        "role": replica.role,
        "index": replica.index,
        "k": replica.k,
        "node": replica.node,
        "boot": replica.boot,
        "pattern": replica.pattern.value,
        "project": replica.project,
        "name": replica.workload,
        "evidence": replica.evidence,
        "gone_at": replica.gone_at,
        "created_at": replica.created_at,
        "started_at": replica.started_at,
        "stop": replica.stop_reason,
        "grace": replica.stop_grace,
        "fault": _short(replica.fault),
        "unasked": replica.unasked,
        "start_fault": replica.fault_is_start,
        "charge": replica.charge,
        "service": list(replica.service),
    }
    if ended is not None:
        found["ended"] = {
            "code": ended.code,
            "at": ended.at,
            "reason": _short(ended.reason),
            "spent": ended.spent.name if ended.spent is not None else "",
            "disrupted": ended.disrupted,
        }
    return json.dumps({key: value for key, value in found.items() if value not in (None, "", 0, False, [])})


def _short(text: str) -> str:
    return text.encode()[-_TEXT_LIMIT:].decode("utf-8", "ignore")


def replica_of(name: str, line: str) -> Observed | None:
    """The replica that a line is about; None where it was removed. Raises ValueError, KeyError or TypeError."""
    said = json.loads(line)
    if not said:
        return None
    generation, attempt = run_of(said["run"])
    found = Observed(
        name=name,
        workload_id=said["workload"],
        generation=generation,
        attempt=attempt,
        role=said["role"],
        index=int(said.get("index", 0)),
        k=int(said.get("k", 0)),
        node=said.get("node", ""),
        boot=said.get("boot", ""),
        pattern=Pattern(said["pattern"]),
        created_at=float(said.get("created_at", 0.0)),
        started_at=said.get("started_at"),
        stop_reason=said.get("stop", ""),
        stop_grace=float(said.get("grace", 0.0)),
        fault=said.get("fault", ""),
        unasked=bool(said.get("unasked", False)),
        fault_is_start=bool(said.get("start_fault", False)),
        gone=True,
        gone_at=said.get("gone_at"),
        evidence=said.get("evidence", ""),
        charge=int(said.get("charge", 0)),
        project=said.get("project", ""),
        workload=said.get("name", ""),
        service=tuple(said.get("service", ())),
    )
    ended = said.get("ended")
    return found if ended is None else replace(found, ended=_ended(ended))


def _ended(said: dict[str, Any]) -> Ended:
    spent = said.get("spent", "")
    return Ended(
        code=int(said["code"]),
        at=float(said["at"]),
        reason=said.get("reason", ""),
        spent=Spent[spent] if spent else None,
        disrupted=bool(said.get("disrupted", False)),
    )
