"""The control plane's enums as people and programs read them: `Running`, not PHASE_RUNNING or 4.

Called by the SDK's users, the tables and the JSON output. Holds: every value has a word, also one that this version
of the client does not know yet (its number).
"""

from __future__ import annotations

from typing import Final

from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client.phases import TERMINAL, Phase, as_phase

__all__ = [
    "TERMINAL",
    "cluster_state_word",
    "enum_word",
    "finding_word",
    "kind_word",
    "node_state_word",
    "phase_number",
    "phase_of",
    "phase_word",
]

_PHASES: Final[dict[int, Phase]] = {int(phase): phase for phase in Phase}


def phase_of(workload: workload_pb2.Workload) -> Phase | None:
    """The phase of a workload; None where this client does not know it."""
    return _PHASES.get(workload.phase)


def phase_word(number: int) -> str:
    """A phase as a word."""
    phase = _PHASES.get(number)
    return phase.word if phase is not None else str(number)


def phase_number(phase: Phase) -> workload_pb2.Phase.ValueType:
    """The API's number of a phase."""
    return workload_pb2.Phase.ValueType(as_phase(phase))


def enum_word(name: str, prefix: str) -> str:
    """An enum value without its enum's name, as a word: NODE_STATE_NOT_READY -> NotReady."""
    return "".join(part.capitalize() for part in name.removeprefix(prefix).split("_"))


def kind_word(number: int) -> str:
    """A kind of workload: Training, Distributed, Inference, Workspace."""
    return _named(options_pb2.Kind, number, "KIND_")


def cluster_state_word(number: int) -> str:
    """How a cluster stands."""
    return _named(fleet_pb2.ClusterState, number, "CLUSTER_STATE_")


def finding_word(level: int) -> str:
    """`ok`, `warning` or `error`."""
    return _named(fleet_pb2.FindingLevel, level, "FINDING_LEVEL_").lower()


def node_state_word(number: int) -> str:
    """How a node is."""
    return _named(fleet_pb2.NodeState, number, "NODE_STATE_")


def _named(enum: object, number: int, prefix: str) -> str:
    try:
        name: str = enum.Name(number)  # type: ignore[attr-defined]
    except ValueError:
        return str(number)
    return enum_word(name, prefix)
