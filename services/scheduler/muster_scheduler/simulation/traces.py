"""Traces: CSV files of pods and nodes as the openb trace has them, and a short form of our own.

Called by reading.py and the command. The openb form: `name, cpu_milli, memory_mib, num_gpu, gpu_milli` and, where
given, `gpu_spec` (admissible models, `|` between them), `creation_time`, `deletion_time` (seconds); nodes: `sn,
cpu_milli, memory_mib, gpu, model`. Each model is a node pool of its own, so that gpu_spec is a list of pools.
Our own: `name, project, at, duration` and, where given, `replicas, gpus, cpu, memory, priority, preemptible, pool`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from muster_kernel.quantities import GPU, MILLI, parse_bytes, parse_gpu, parse_milli_cpu
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.workloads import SECOND, Request
from muster_scheduler.simulation.members import LONGEST_TIME, printable, span
from muster_scheduler.simulation.problems import Problem, Unusable
from muster_scheduler.simulation.scenario import (
    DAY,
    GIB,
    LARGEST_NODE,
    Ask,
    Job,
    NodeGroup,
    Pace,
    Scenario,
    Tenant,
    gpus_of,
    request_of,
)

T = TypeVar("T")
Models = tuple[tuple[str, str], ...]
MIB: Final = 1 << 20
TRACE: Final = "trace"  # the one project of a trace without projects
_PODS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODES: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_OWN: Final = ("name", "project", "at", "duration")
_MOST_TOLD: Final = 20
_DEFAULT_DURATION: Final = 3600


class Row:
    """One line of a CSV file; what is wrong with it is noted."""

    def __init__(self, file: str, line: int, values: dict[str, str], problems: list[Problem]) -> None:
        """`values` by the name of the column."""
        self.file, self.line, self._values, self._problems = file, line, values, problems

    def wrong(self, name: str, text: str) -> None:
        """Notes what is wrong with a value."""
        if len(self._problems) < _MOST_TOLD:
            self._problems.append(Problem(self.file, self.line, name, text))

    def read(self, name: str, read: Callable[[str], T], default: T) -> T:
        """A value, or the default where the column or the value is missing."""
        text = self._values.get(name) or ""
        if not text:
            return default
        try:
            return read(text)
        except ValueError as error:
            self.wrong(name, str(error))
            return default

    def whole(self, name: str, most: int, default: int = 0) -> int:
        """A whole number from 0."""

        def read(text: str) -> int:
            if not text.isdecimal() or int(text) > most:
                raise ValueError(f"{text[:40]!r}: a whole number from 0 to {most} is allowed")
            return int(text)

        return self.read(name, read, default)

    def text(self, name: str, default: str = "") -> str:
        """A word."""
        return self.read(name, printable, default)


def read_rows(file: str, text: str, needed: tuple[str, ...], problems: list[Problem]) -> list[Row]:
    """The lines of a CSV file that has at least the needed columns. Raises Unusable where it has not."""
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise Unusable([Problem(file, 0, "", f"is no CSV: {error}")]) from error
    header = lines[0] if lines else []
    missing = [name for name in needed if name not in header]
    if missing:
        said = f"has no column {', '.join(missing)}: the first line names at least {', '.join(needed)}"
        raise Unusable([Problem(file, 1, "", said)])
    rows: list[Row] = []
    for number, values in enumerate(lines[1:], 2):
        if values and len(values) != len(header) and len(problems) < _MOST_TOLD:
            problems.append(Problem(file, number, "", f"has {len(values)} values, the first line {len(header)} names"))
        elif values:
            rows.append(Row(file, number, dict(zip(header, values, strict=True)), problems))
    return rows


def read_trace(path: Path, text: str, nodes: Path, nodes_text: str, *, days: float | None = None) -> Scenario:
    """A trace of pods and the nodes beside it as a scenario; each project deserves the whole fleet. Raises Unusable."""
    fleet = read_nodes(str(nodes), nodes_text)
    models = tuple(dict.fromkeys((group.model, group.pool) for group in fleet))
    jobs = read_jobs(str(path), text, models, None)
    first = min((job.at for job in jobs), default=0)
    jobs = tuple(job._replace(at=job.at - first) for job in jobs)
    last = max((job.at + job.duration for job in jobs), default=SECOND)
    pace = _pace(int(days * DAY) if days is not None else min(LONGEST_TIME, last), whole=days is None)
    jobs = tuple(job for job in jobs if job.at <= pace.length)
    pools = {group.pool: GPU * gpus_of(tuple(g for g in fleet if g.pool == group.pool)) for group in fleet}
    quotas = tuple((pool, Quota(units, None, 1)) for pool, units in pools.items())
    tenants = tuple(Tenant(name, "default", quotas) for name in sorted({job.project for job in jobs}))
    return Scenario(path.stem, pace, fleet, tenants, jobs)


def _pace(length: int, *, whole: bool) -> Pace:
    """A long trace in long cycles. `whole`: with the time in which the last of its workloads starts and ends."""
    cycle = max(5 * SECOND, max(1, length // (300 * DAY)) * 60 * SECOND if length > 10 * DAY else 0)
    usual = Pace()
    tail = usual.start + usual.stop + 3 * cycle if whole else 0  # decided, started and reported: a cycle each
    return Pace(length + tail, cycle=cycle, sample=max(SECOND, (length + tail) // 288))


def read_nodes(file: str, text: str) -> tuple[NodeGroup, ...]:
    """The nodes of a trace, each model in a node pool of its own. Raises Unusable."""
    problems: list[Problem] = []
    found: dict[str, NodeGroup] = {}
    for row in read_rows(file, text, _NODES, problems):
        name, model = row.text("sn", f"node-{row.line}"), row.text("model") or "cpu"
        if name in found:
            row.wrong("sn", f"node {name[:60]!r} stands there twice: give each a name of its own")
        cpu, memory = row.whole("cpu_milli", 10**7), row.whole("memory_mib", 10**8) * MIB
        found[name] = NodeGroup("trace", model, name, 1, row.whole("gpu", LARGEST_NODE), model, 80 * GIB, cpu, memory)
    if problems or not found:
        raise Unusable(problems or [Problem(file, 0, "", "has no node")])
    return tuple(found.values())


def read_jobs(file: str, text: str, models: Models, projects: set[str] | None) -> tuple[Job, ...]:
    """The pods or workloads of a trace, by time. `projects`: the allowed ones; None: any. Raises Unusable."""
    problems: list[Problem] = []
    own = "at" in text.partition("\n")[0].split(",")
    rows = read_rows(file, text, _OWN if own else _PODS, problems)
    requests: dict[Ask, Request] = {}
    jobs = [_own_job(row, models, projects, requests) if own else _pod(row, models, projects, requests) for row in rows]
    _check_names(rows, jobs)
    if problems or not jobs:
        raise Unusable(problems or [Problem(file, 0, "", "has no workload")])
    return tuple(sorted(jobs, key=lambda job: (job.at, job.name)))


def _check_names(rows: list[Row], jobs: list[Job]) -> None:
    """A name that stands twice in its project: a line that was copied would count as work that nobody asked for."""
    lines: dict[tuple[str, str], int] = {}
    for row, job in zip(rows, jobs, strict=True):
        first = lines.setdefault((job.project, job.name), row.line)
        if first != row.line:
            row.wrong("name", f"{job.name[:60]!r} stands in line {first} already: give each a name of its own")


def _pod(row: Row, models: Models, projects: set[str] | None, requests: dict[Ask, Request]) -> Job:
    devices, milli = row.whole("num_gpu", LARGEST_NODE), row.whole("gpu_milli", MILLI)
    spec = row.text("gpu_spec")
    admitted = set(spec.split("|")) if spec else None
    pools = tuple(dict.fromkeys(pool for model, pool in models if admitted is None or model in admitted))
    whole = milli == MILLI or devices != 1
    ask = Ask(
        1,
        devices,
        MILLI if whole else milli,
        row.whole("cpu_milli", 10**7),
        row.whole("memory_mib", 10**8) * MIB,
        pools=pools or tuple(admitted or ()),
    )
    created = row.whole("creation_time", 10**9)
    deleted = row.whole("deletion_time", 10**9, created + _DEFAULT_DURATION)
    if deleted < created:
        row.wrong("deletion_time", f"{deleted} is before the creation_time {created}: give a later one, or none")
    duration = max(1, deleted - created) * SECOND
    project = TRACE if projects is None or TRACE in projects else min(projects)
    return Job(_name(row), project, created * SECOND, duration, _request(ask, requests))


def _name(row: Row) -> str:
    return row.text("name", f"workload-{row.line}")


def _own_job(row: Row, models: Models, projects: set[str] | None, requests: dict[Ask, Request]) -> Job:
    def project(text: str) -> str:
        if projects is not None and text not in projects:
            raise ValueError(f"there is no project {text[:40]!r}: there are {', '.join(sorted(projects)[:10])}")
        return text

    def gpus(text: str) -> tuple[int, int]:
        asked = parse_gpu(text)
        return asked.devices, asked.milli or MILLI

    def pool(text: str) -> str:
        known = sorted({name for _, name in models})
        if text not in known:
            raise ValueError(f"there is no node pool {text[:40]!r}: there are {', '.join(known[:10])}")
        return text

    devices, milli = row.read("gpus", gpus, (1, MILLI))
    ask = Ask(
        max(1, row.whole("replicas", 10_000, 1)),
        devices,
        milli,
        row.read("cpu", parse_milli_cpu, MILLI),
        row.read("memory", parse_bytes, GIB),
        row.whole("priority", 1000, 50),
        row.text("preemptible", "true") == "true",
        (row.read("pool", pool, models[0][1]),),
    )
    at, duration = row.read("at", span, 0), row.read("duration", span, _DEFAULT_DURATION * SECOND)
    return Job(_name(row), row.read("project", project, TRACE), at, max(SECOND, duration), _request(ask, requests))


def _request(ask: Ask, requests: dict[Ask, Request]) -> Request:
    """One request a class: equal ones are the same object, and so compared at once."""
    known = requests.get(ask)
    if known is None:
        known = requests[ask] = request_of(ask)
    return known
