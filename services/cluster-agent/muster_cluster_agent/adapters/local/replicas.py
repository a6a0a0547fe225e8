"""Replica folders: written before a process starts, read as facts, buried and removed.

Used by the local back end; everything here blocks and runs in a thread, except `facts`, which is pure.
Holds: a folder appears under its name whole and fsynced or not at all; a name that exists, or was removed, is never
made again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from muster_cluster_agent.adapters.local import journal, limits, procfs
from muster_cluster_agent.adapters.local.state import StateFolder, sync_folder, write_synced
from muster_cluster_agent.adapters.local.workdirs import Workdirs
from muster_cluster_agent.domain.budgets import Spent, spent_sentence
from muster_cluster_agent.domain.launch import share_of
from muster_cluster_agent.domain.model import Ended, Observed, Pattern, Share
from muster_cluster_agent.domain.text import plain_line
from muster_cluster_agent.domain.torch_record import failure_in

CALLS: Final = "calls.json"
"""What a launcher asks of its workers, with their environment."""
EXEC_SOCKET: Final = "exec.sock"
"""Where a worker's daemon listens, in the folder of messages to the supervisor."""
_SWEEP_SECONDS: Final = 5.0
_LOCK_SECONDS: Final = 5.0
Spec = dict[str, Any]
Lines = list[dict[str, Any]]

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Replica:
    """What the agent knows of one replica: its spec and journal, and what cannot be read from the disk."""

    spec: Spec
    lines: Lines
    supervised: bool = True
    ready: bool = False
    starting: bool = False  # its supervisor was asked for, and the fork server has not answered

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.spec["name"])

    @property
    def workload_id(self) -> str:
        """Whose replica it is."""
        return str(self.spec["workload_id"])

    @property
    def devices(self) -> tuple[str, ...]:
        """The UUIDs of its devices."""
        return tuple(str(device["uuid"]) for device in self.spec.get("devices", ()) if "uuid" in device)

    @property
    def shares(self) -> tuple[Share, ...]:
        """Its shares of these devices, which it has until it is gone."""
        return tuple(share_of(device) for device in self.spec.get("devices", ()) if "uuid" in device)

    def line(self, event: str) -> dict[str, Any] | None:
        """The first line of that event."""
        return next((line for line in self.lines if line.get("event") == event), None)

    @property
    def gone(self) -> bool:
        """Whether no process of it is left."""
        return self.line("gone") is not None

    @property
    def running(self) -> bool:
        """Whether its command has started and not ended."""
        return self.line("started") is not None and self.line("exited") is None and not self.gone

    def supervisor(self) -> tuple[int, int] | None:
        """Its supervisor's (pid, start time), as it wrote it down."""
        line = self.line("supervised")
        return None if line is None else (int(line["pid"]), int(line["start"] or 0))


def _pattern(word: str) -> Pattern:
    """Return the pattern of a spec. The last release wrote `torch` for a gang; its replicas go on over an upgrade."""
    return Pattern.GANG if word == "torch" else Pattern(word)


def facts(replica: Replica, service: tuple[str, ...] = ()) -> Observed:
    """The replica as reconciling sees it."""
    spec = replica.spec
    started, stopping, exited = replica.line("started"), replica.line("stopping"), replica.line("exited")
    refused, abandoned, gone = replica.line("refused"), replica.line("abandoned"), replica.line("gone")
    ended = None
    if exited is not None:
        ended = Ended(int(exited["code"]), float(exited["at"]), *_why(refused, spec, exited))
    return Observed(
        name=replica.name,
        workload_id=replica.workload_id,
        generation=int(spec["generation"]),
        attempt=int(spec["attempt"]),
        role=str(spec["role"]),
        index=int(spec["index"]),
        k=int(spec["k"]),
        node=str(spec["node"]),
        boot=str(spec["node_boot"]),
        pattern=_pattern(str(spec["pattern"])),
        created_at=float(spec["created_at"]),
        supervised=replica.supervised,
        started_at=float(started["at"]) if started is not None else None,
        ready=replica.ready and exited is None,
        stop_reason=_stop_reason(spec, stopping, exited, abandoned),
        stop_grace=float(spec.get("stop", {}).get("grace", 0.0)),
        ended=ended,
        fault=str(abandoned["reason"]) if abandoned is not None else "",
        fault_is_start=abandoned is not None and bool(abandoned.get("start_failed")),
        gone=gone is not None,
        gone_at=float(gone["at"]) if gone is not None else None,
        evidence=str(gone["evidence"]) if gone is not None else "",
        devices=replica.devices,
        endpoints=tuple(f"http://127.0.0.1:{port}" for port in spec.get("ports", {}).values()),
        service=service,
        charge=int(spec.get("charge", 0)),
        project=str(spec.get("project", "")),
        workload=str(spec.get("workload", "")),
        folders=(str(spec["run_folder"]), str(spec["keep_folder"])) if "run_folder" in spec else (),
    )


def _why(refused: dict[str, Any] | None, spec: Spec, exited: dict[str, Any]) -> tuple[str, Spent | None]:
    """What is known of an end apart from its code.

    Why it could not be run, the budget that it used up, or which rank of a torchrun failed first.
    """
    if refused is not None:
        return plain_line(str(refused["reason"])), None
    if exited.get("spent") and exited["code"]:
        spent, budget = Spent(exited["spent"]), spec.get("budget", {})
        limits = {Spent.MEMORY: "memory", Spent.PROCESSES: "processes", Spent.FILE: "file"}
        return spent_sentence(spent, int(budget.get(limits.get(spent, ""), 0))), spent
    record = spec.get("record")
    if record is None or record.get("ok"):
        return "", None
    return failure_in(record), None


def _stop_reason(spec: Spec, stopping: Any, exited: Any, abandoned: Any) -> str:
    """Why we stopped it. A command that had ended before the supervisor read our wish has ended by itself."""
    if stopping is not None:
        return str(stopping["reason"])
    if exited is not None or abandoned is not None:
        return ""
    return str(spec.get("stop", {}).get("reason", ""))


class ReplicaStore:
    """The folders below `replicas/`."""

    def __init__(self, state: StateFolder) -> None:
        """Reads nothing yet."""
        self._state = state
        self._workdirs = Workdirs(state.work)

    def load(self) -> list[Replica]:
        """Every replica on the disk.

        What a crash left is cleared away: drafts, from which nothing was started, and folders whose history is written.
        """
        found = []
        for path in sorted((self._state.root / "replicas").iterdir()):
            if path.name.startswith(".") or path.name in self._state.removed:
                shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                replica = self.read(path.name)
            except Exception as error:  # noqa: BLE001  what one replica has written must not keep the agent from starting
                log.warning("replica_not_read", replica=path.name, why=f"{type(error).__name__}: {error}"[:300])
                continue
            if replica is not None:
                found.append(replica)
        return found

    def read(self, name: str) -> Replica | None:
        """One replica; None where its folder is not there or cannot be read."""
        folder = self._state.replica(name)
        try:
            spec = journal.read_spec(str(folder))
        except (OSError, ValueError):
            return None
        stop = _read_json(folder / journal.STOP)
        if stop is not None:
            spec["stop"] = stop
        record = self._workdirs.record(spec["told"]) if spec.get("launch") == "Torchrun" else None
        if record is not None:
            spec["record"] = record
        replica = Replica(spec, journal.read(str(folder)))
        replica.supervised = not replica.gone and journal.held(str(folder))
        return replica

    def create(self, spec: Spec, lines: Iterable[dict[str, Any]] = ()) -> bool:
        """Writes a replica down, durably, before anything is started. False where the name exists already."""
        target = self._state.replica(spec["name"])
        draft = target.with_name(f".{spec['name']}.{os.getpid()}.{time.monotonic_ns()}")
        draft.mkdir()
        write_synced(draft / journal.SPEC, json.dumps(spec, separators=(",", ":")).encode())
        if text := "".join(json.dumps(line) + "\n" for line in lines):
            write_synced(draft / journal.FILE, text.encode())
        else:
            (draft / journal.FILE).touch(0o600)  # an empty file is on the disk once its folder is
        sync_folder(draft)
        try:
            draft.rename(target)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            return False
        sync_folder(target.parent)
        return True

    def ask_to_stop(self, replica: Replica, grace: float, reason: str) -> None:
        """Leaves the wish in the folder and wakes the supervisor; one that comes later finds it there.

        Who that is, the journal says once the wish is written: a supervisor names itself in it before it first looks
        for a wish, so that one of us always sees the other. What was read of it earlier may lack that line.
        """
        wish = {"grace": grace, "reason": reason, "at": time.time()}
        path = self._state.replica(replica.name) / journal.STOP
        draft = path.with_name(".stop.new")
        draft.write_text(json.dumps(wish))
        draft.replace(path)
        replica.spec["stop"] = wish
        self.wake(Replica(replica.spec, journal.read(str(path.parent))))

    def wake(self, replica: Replica) -> None:
        """Has the supervisor look for a wish now, if one is there that it has not taken up."""
        supervisor = replica.supervisor()
        if supervisor is not None and "stop" in replica.spec:
            procfs.send(*supervisor, signal.SIGTERM)

    def bury(self, replica: Replica, evidence: str, fault: str) -> bool:
        """Ends what is left of a replica without a supervisor and writes down that it is gone.

        False where a supervisor still holds the journal (evidence `no-process`), or where processes could not be ended.
        """
        folder = str(self._state.replica(replica.name))
        supervisor = replica.supervisor()
        if evidence != "no-process" and supervisor is not None:
            procfs.send(*supervisor, signal.SIGKILL)
        book = self._lock(folder, patient=evidence != "no-process")
        if book is None:
            return False
        try:
            # By its groups first: a process may have changed its environment, and with it its mark.
            if not limits.end(replica.spec.get("budget", {}), seconds=_SWEEP_SECONDS):
                return False
            if not procfs.end_marked(self._state.instance, replica.name, seconds=_SWEEP_SECONDS):
                return False
            lines = {str(line.get("event")) for line in journal.read(folder)}
            if "gone" not in lines:
                abandoned = [] if "exited" in lines else [{"event": "abandoned", "reason": fault or evidence}]
                book.append(*abandoned, {"event": "gone", "evidence": evidence, "by": "agent"})
        finally:
            book.close()
        return True

    def _lock(self, folder: str, *, patient: bool) -> journal.Journal | None:
        deadline = time.monotonic() + (_LOCK_SECONDS if patient else 0.0)
        while True:
            try:
                return journal.Journal(folder)
            except journal.Locked:
                if time.monotonic() >= deadline:
                    return None
                time.sleep(0.01)  # a killed supervisor's lock goes with its last moment

    def remove(self, replica: Replica) -> None:
        """Forgets a replica that is gone: into the history first, so that its name stays used.

        Its working folder stays, so an environment in it goes first, before a crash could make the rest count as done.
        Control groups that its supervisor could not remove, because it was killed or the kernel was late, go here.
        """
        folder = self._state.replica(replica.name)
        limits.remove(replica.spec.get("budget", {}))
        self._workdirs.take_back(str(replica.spec.get("given", "")))
        self._state.remember(replica.spec, replica.lines)
        shutil.rmtree(folder, ignore_errors=True)

    def processes(self, replicas: Iterable[Replica]) -> list[tuple[int, int]]:
        """Every living process of these replicas: supervisors first, then everything that carries their marks."""
        chosen = {replica.name: replica for replica in replicas}
        found = [pair for replica in chosen.values() if (pair := replica.supervisor()) is not None]
        for name, pids in procfs.marked(self._state.instance).items():
            if name in chosen:
                found.extend((pid, start) for pid in pids if (start := procfs.start_time(pid)) is not None)
        return found


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
