"""Reads the supervisors' journals of a cluster's state folder into the checker's entries.

Called by `run.py` when the stack is down, and by the soak while it runs. A replica's journal lies in its folder while
it is held, and in `history.jsonl` once it was released; a crash between the two leaves both, so lines that are the same
to the last digit count once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from tests.chaos.checker import WHOLE, Entry, Held

NANOSECONDS: Final = 1_000_000_000
_EVENTS: Final = {"started": "start", "exited": "exit", "gone": "gone"}

Record = dict[str, Any]


def read_state_folder(folder: Path) -> list[Entry]:
    """Every entry of the replicas that this cluster ever had, in no order. Torn last lines are left out."""
    entries: dict[tuple[str, str, int], Entry] = {}
    held = _held(folder)  # before the history: a replica that is released in between is then in both
    for spec, journal in [*held, *_released(folder)]:
        for entry in entries_of(spec, journal):
            entries[(entry.replica, entry.event, entry.at_ns)] = entry
    return list(entries.values())


class Journals:
    """The journals of a cluster that is still running, read again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = 0  # the inode of the history, which the agent replaces when it cuts it
        self._read = 0  # bytes of it

    def look(self) -> list[Entry]:
        """Return the entries of held replicas, and of those released since the last look.

        A history of 20,000 replicas takes half a second to read, so each of its lines is read once.
        """
        held = _held(self._folder)
        return [entry for spec, journal in [*held, *self._released()] for entry in entries_of(spec, journal)]

    def _released(self) -> list[tuple[Record, list[Record]]]:
        try:
            with (self._folder / "history.jsonl").open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode != self._file:
                    self._file, self._read = inode, 0
                file.seek(self._read)
                whole, _, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._read += len(whole) + 1 if whole else 0
        return _records(whole.decode(errors="replace"))


def entries_of(spec: Record, journal: list[Record]) -> list[Entry]:
    """The entries of one replica."""
    held = tuple(_held_device(device) for device in spec.get("devices", []))
    return [
        Entry(
            event=_EVENTS[line["event"]],  # type: ignore[arg-type]
            at_ns=round(line["monotonic"] * NANOSECONDS),
            replica=spec["name"],
            workload=spec["workload_id"],
            generation=spec["generation"],
            attempt=spec["attempt"],
            held=held,
            code=line.get("code"),
        )
        for line in journal
        if line.get("event") in _EVENTS
    ]


def _held_device(device: Record) -> Held:
    """A slice counts by its compute sevenths: enough to see that replicas have more than one device between them."""
    name = device["uuid"]
    if device.get("portion"):
        return Held(name, round(device["portion"] * WHOLE))
    if device.get("bytes"):
        return Held(name, 0, device["bytes"])
    if device.get("slice"):
        sevenths = int(str(device["slice"]["profile"]).split("g", 1)[0])
        return Held(name, WHOLE * sevenths // 7)
    return Held(name, WHOLE)


def _released(folder: Path) -> list[tuple[Record, list[Record]]]:
    try:
        text = (folder / "history.jsonl").read_text(errors="replace")
    except FileNotFoundError:
        return []
    return _records(text)


def _records(text: str) -> list[tuple[Record, list[Record]]]:
    return [(record["spec"], record["journal"]) for record in _whole_lines(text) if "spec" in record]


def _held(folder: Path) -> list[tuple[Record, list[Record]]]:
    found = []
    for place in sorted((folder / "replicas").glob("*")):
        try:
            spec = json.loads((place / "spec.json").read_text())
            journal = _whole_lines((place / "journal").read_text(errors="replace"))
        except (OSError, ValueError):
            # Not written whole: nothing was ever started from it.
            continue
        found.append((spec, journal))
    return found


def _whole_lines(text: str) -> list[Record]:
    lines = []
    for raw in text.splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines
