"""The client's own log of a chaos run: what it was told, written down before it goes on.

Written by the driver, read by the checker. One JSON object a line. Holds: a line is on the disk before the driver
acts on it.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Ledger:
    """The open log."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def acknowledged(self, workload: str, name: str) -> None:
        """Submission answered OK for it."""
        self._write(event="acknowledged", workload=workload, name=name)

    def told(self, workload: str, phase: str) -> None:
        """The control plane said that it is in this phase."""
        self._write(event="told", workload=workload, phase=phase)

    def did(self, what: str, workload: str) -> None:
        """The driver asked for something and was answered OK."""
        self._write(event=what, workload=workload)

    def close(self) -> None:
        """Ends it."""
        self._file.close()

    def _write(self, **line: str) -> None:
        self._file.write(json.dumps({"at": time.time(), **line}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@dataclass(slots=True)
class Told:
    """What a ledger holds: everything acknowledged by name, the last phase told, and what the driver has ended.

    stopped: workloads that the driver has deleted or suspended.
    """

    acknowledged: dict[str, str] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)


def read(path: Path) -> Told:
    """The content of a ledger."""
    told = Told()
    for raw in path.read_text().splitlines():
        line = json.loads(raw)
        if line["event"] == "acknowledged":
            told.acknowledged[line["workload"]] = line["name"]
        elif line["event"] == "told":
            told.phases[line["workload"]] = line["phase"]
        elif line["event"] in {"delete", "suspend"}:
            told.stopped.add(line["workload"])
    return told
