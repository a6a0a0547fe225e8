"""A scenario file: YAML in, a Scenario out, or every problem with its line and path.

Called by the command. What a file may say is in docs/guides/simulate.md; members of a job are in asking.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.simulation import asking, generators, traces
from muster_scheduler.simulation.fleets import Places, fleet_in, places_of, pools_in
from muster_scheduler.simulation.members import Members
from muster_scheduler.simulation.problems import Problem, Unusable
from muster_scheduler.simulation.scenario import (
    DAY,
    MOST_GPUS,
    MOST_JOBS,
    Change,
    Job,
    NodeGroup,
    Outage,
    Pace,
    Scenario,
    Tenant,
    Unit,
    gpus_of,
    whole_gpus,
)

LARGEST_FILE: Final = 64 << 20
_DEFAULT: Final = "default"
_MOST_SAMPLES: Final = 100_000


def read_text(path: Path, most: int = LARGEST_FILE) -> str:
    """The text of a file. Raises Unusable."""
    try:
        if path.stat().st_size > most:
            raise Unusable([Problem(str(path), 0, "", f"the file is too large: at most {most >> 20} MiB are read")])
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Unusable([Problem(str(path), 0, "", f"cannot be read: {error.strerror or error}")]) from error
    except UnicodeDecodeError as error:
        raise Unusable(
            [Problem(str(path), 0, "", f"is no UTF-8 text: {error.reason} at byte {error.start}")]
        ) from error


def read_scenario(path: Path, *, days: float | None = None) -> Scenario:
    """The scenario in a file; `days` overrides its length. Raises Unusable."""
    problems: list[Problem] = []
    try:
        node = yaml.compose(read_text(path, 16 << 20), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        text = str(getattr(error, "problem", None) or "it is nested too deeply")
        raise Unusable([Problem(str(path), mark.line + 1 if mark else 0, "", f"is no YAML: {text}")]) from error
    root = Members(node, "", str(path), problems)
    if node is None:
        root.wrong("", "the file is empty: a scenario has clusters, projects and arrivals")
    scenario = _scenario(root, path, days)
    root.done()
    if problems:
        raise Unusable(sorted(problems, key=lambda problem: problem.line))
    return scenario


def _scenario(root: Members, path: Path, days: float | None) -> Scenario:
    pace = _pace(root, days)
    seed = root.whole("seed", 1, 0, 1 << 40)
    name = root.text("name", path.stem)
    fleet = tuple(fleet_in(root))
    places = places_of(fleet)
    pools = places.pools
    departments = tuple(_departments(root, pools))
    tenants = tuple(_tenants(root, pools, {unit.department for unit in departments}))
    names = {tenant.project for tenant in tenants}
    jobs = [
        *_listed(root, names, places, pace.length if days is None else None),
        *_drawn(root, names, places, seed, pace, gpus_of(fleet)),
        *_traced(root, path, tenants, fleet),
    ]
    jobs = [job for job in jobs if job.at <= pace.length]
    if len(jobs) > MOST_JOBS:
        root.wrong("arrivals", f"{len(jobs):,} workloads come: at most {MOST_JOBS:,} are simulated")
    jobs.sort(key=lambda job: (job.at, job.name))
    outages = tuple(_outages(root, fleet))
    changes = tuple(_changes(root, tenants, pools))
    return Scenario(
        name, pace, fleet, tenants, tuple(jobs), outages, changes, departments, tuple(pools_in(root, fleet))
    )


def _pace(root: Members, days: float | None) -> Pace:
    usual = Pace()
    length = int(root.number("days", 1.0, 0.0001, 400) * DAY)
    inner = root.members("pace")
    pace = Pace(
        int(days * DAY) if days is not None else length,
        inner.span("cycle", usual.cycle, SECOND),
        inner.span("sample", usual.sample, SECOND),
        inner.span("start", usual.start),
        inner.span("stop", usual.stop),
        inner.span("checkpoint", 0),
    )
    inner.done()
    if pace.length // pace.sample > _MOST_SAMPLES:
        root.wrong("pace", f"sample is too short for so many days: at most {_MOST_SAMPLES:,} samples are taken")
    return pace


def _departments(root: Members, pools: list[str]) -> Iterator[Unit]:
    seen: set[str] = set()
    for each in root.list("departments", 1000):
        name = each.text("name")
        if name in seen:
            each.wrong("name", f"{name!r} is given twice: give each department once")
        seen.add(name)
        yield Unit(name, _quotas(each, pools), each.whole("rank", 0, 0, 1000))
        each.done()


def _tenants(root: Members, pools: list[str], departments: set[str]) -> Iterator[Tenant]:
    """departments: those that the file lists. Where it lists none, each that a project names exists without quotas."""
    seen: set[str] = set()
    for project in root.list("projects", 10_000):
        name = project.text("name")
        if name in seen:
            project.wrong("name", f"{name!r} is given twice: give each project once")
        seen.add(name)
        department = project.text("department", _DEFAULT)
        if departments and department not in departments | {_DEFAULT}:
            said = f"there is no department {department!r}: there are {', '.join(sorted(departments))}"
            project.wrong("department", said)
        yield Tenant(name, department, _quotas(project, pools), project.whole("rank", 0, 0, 1000))
        project.done()
    if not seen:
        root.wrong("projects", "there is no project: give at least one with its quota")


def _quotas(project: Members, pools: list[str]) -> tuple[tuple[str, Quota], ...]:
    quotas: list[tuple[str, Quota]] = []
    for pool, inner in project.named("quotas"):
        if pool not in pools:
            inner.wrong("", f"there is no node pool {pool!r}: there are {', '.join(pools) or 'none'}")
        deserved = int(inner.number("gpus", 0, 0, MOST_GPUS) * GPU)
        limit = int(inner.number("limit", 0, 0, MOST_GPUS) * GPU) if "limit" in inner else None
        if limit is None:
            inner.number("limit", 0, 0, MOST_GPUS)
        elif limit < deserved:
            said = (
                f"{whole_gpus(limit):g} is below what is deserved, {whole_gpus(deserved):g}: at least as much, or none"
            )
            inner.wrong("limit", said)
        quotas.append((pool, Quota(deserved, limit, int(1000 * inner.number("weight", 1.0, 0, 1000)))))
        inner.done()
    return tuple(quotas)


def _listed(root: Members, projects: set[str], places: Places, length: int | None) -> Iterator[Job]:
    """length: of the simulation, in microseconds, where the file says it; None: whoever comes later does not come."""
    seen: set[tuple[str, str]] = set()
    for number, each in enumerate(root.list("workloads")):
        name, project, at = (
            each.text("name", f"workload-{number}"),
            asking.project_of(each, projects),
            each.span("at", 0),
        )
        if (project, name) in seen:
            each.wrong("name", f"{project} has a workload {name!r} already: give each a name of its own")
        seen.add((project, name))
        if length is not None and at > length:
            each.wrong("at", "it comes after the end of the simulation: give an earlier time, or more days")
        yield Job(
            name,
            project,
            at,
            each.span("duration", None, SECOND),
            asking.request_in(each, places),
            each.span("failsAfter", 0),
        )
        each.done()


def _drawn(root: Members, projects: set[str], places: Places, seed: int, pace: Pace, gpus: int) -> tuple[Job, ...]:
    streams = []
    for each in root.list("arrivals", 10_000):
        stream = asking.stream_in(each, projects, places)
        coming = generators.expected(stream, pace.length, gpus)
        if coming > MOST_JOBS:
            each.wrong("", f"{coming:,.0f} workloads would come: at most {MOST_JOBS:,} are simulated")
        elif stream.sorts:
            streams.append(stream)
    return generators.jobs(tuple(streams), seed=seed, length=pace.length, gpus=gpus)


def _traced(root: Members, path: Path, tenants: tuple[Tenant, ...], fleet: tuple[NodeGroup, ...]) -> tuple[Job, ...]:
    name = root.text("trace", "")
    if not name or not tenants:
        return ()
    file = path.parent / name
    models = tuple(dict.fromkeys((group.model, group.pool) for group in fleet))
    return traces.read_jobs(str(file), read_text(file), models, {tenant.project for tenant in tenants})


def _outages(root: Members, fleet: tuple[NodeGroup, ...]) -> Iterator[Outage]:
    known = {(group.cluster, group.name): group for group in fleet}
    down: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for each in root.list("outages"):
        cluster, node = each.text("cluster"), each.text("node")
        at = each.span("at", None)
        until = at + each.span("for", None, SECOND)
        group = known.get((cluster, node)) or known.get((cluster, node.rpartition("-")[0]))
        if group is None or not _names(group, node):
            each.wrong("node", f"cluster {cluster!r} has no node {node!r}: nodes are called NAME-0, NAME-1 .. (docs)")
        elif any(at < end and begin < until for begin, end in down.setdefault((cluster, node), [])):
            each.wrong("at", f"{node} is down then already: let it come back before, or make one outage of the two")
        else:
            down[cluster, node].append((at, until))
            yield Outage(at, until, cluster, node)
        each.done()


def _names(group: NodeGroup, node: str) -> bool:
    if group.nodes == 1:
        return node == group.name
    number = node.removeprefix(f"{group.name}-")
    return number.isdecimal() and number == str(int(number)) and int(number) < group.nodes


def _changes(root: Members, tenants: tuple[Tenant, ...], pools: list[str]) -> Iterator[Change]:
    known = {tenant.project: tenant for tenant in tenants}
    for each in root.list("changes"):
        name = asking.project_of(each, set(known))
        at = each.span("at", None)
        quotas = _quotas(each, pools)
        each.done()
        if name in known:
            merged = dict(known[name].quotas) | dict(quotas)
            yield Change(at, known[name]._replace(quotas=tuple(merged.items())))
