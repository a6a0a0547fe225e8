"""Values that several fields of a spec give together, under the one YAML name that v1 policies rule them by.

`gpu` is devices times portion, `preemptible` follows from the class of the workload, `runAsUser` from the source of its
ids. Named by the places of v1, read by the rules. Pure.
Holds: a value is the same for every channel by which its parts came in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from muster.workload.v1 import workload_pb2
from muster_kernel.quantities import MILLI, portion_milli
from muster_language import Row, catalogue, is_preemptible

_PORTION: Final = "gpu_portion_request"
_DEVICES: Final = "gpu_devices_request"
_CLASSES: Final = ("preemptible", "priority_class")
_SOURCES: Final = ("run_as_user", "uid_gid_source")


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """One value of several fields.

    path: where issues about it point. of: the value; None where no field says it. rows: the fields that give it.
    alternatives: fields that ask for the same in another way, as `gpuMemory` does for `gpu`.
    """

    path: str
    of: Callable[[Any], Any]
    rows: tuple[Row, ...]
    alternatives: tuple[Row, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a spec that give it, in either way."""
        return tuple(row.name for row in (*self.rows, *self.alternatives))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths whose giver is the giver of the value."""
        return tuple(row.path for row in (*self.rows, *self.alternatives))


def combined(word: str) -> Combined | None:
    """The combined value of a YAML field; None for a field that is one value by itself."""
    rows = catalogue().by_name
    match word:
        case "gpu":
            alternatives = (rows["gpu_memory_request"], rows["mig_profile"])
            return Combined(rows[_PORTION].path, _gpu, (rows[_PORTION], rows[_DEVICES]), alternatives)
        case "preemptible":
            return Combined("preemptible", _preemptible, tuple(rows[name] for name in _CLASSES))
        case "runAsUser":
            return Combined(rows["uid_gid_source"].path, _run_as_user, tuple(rows[name] for name in _SOURCES))
        case _:
            return None


def _gpu(role: Any) -> Decimal | None:
    """The GPUs of one replica: devices times portion.

    A device of which memory or a MIG profile is asked counts whole, since only a node knows its share: a limit could
    be passed by otherwise.
    """
    shared = bool(role.gpu_memory_request or role.mig_profile)
    if not role.HasField(_PORTION) and not role.HasField(_DEVICES) and not shared:
        return None
    devices = role.gpu_devices_request if role.HasField(_DEVICES) else 1
    milli = MILLI
    if role.HasField(_PORTION) and not shared:
        try:
            milli = portion_milli(role.gpu_portion_request)
        except ValueError:
            milli = MILLI  # no portion at all, as the language says by itself
    return Decimal(devices * milli) / MILLI


def _preemptible(spec: Any) -> bool | None:
    return is_preemptible(spec) if any(spec.HasField(name) for name in _CLASSES) else None


def _run_as_user(role: Any) -> bool | None:
    """Whether the process runs under another user than the image's. Baselines still have the field itself."""
    if role.HasField("uid_gid_source"):
        return bool(role.uid_gid_source != workload_pb2.UID_GID_SOURCE_FROM_THE_IMAGE)
    return role.run_as_user if role.HasField("run_as_user") else None
