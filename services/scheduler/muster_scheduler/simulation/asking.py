"""What jobs of a scenario file ask for: the members that a listed workload and a class of arrivals share.

Called by reading.py.
"""

from __future__ import annotations

from muster_kernel.quantities import MILLI, parse_gpu
from muster_scheduler.domain.asked.terms import ANYWHERE, Label, Terms
from muster_scheduler.domain.asked.workloads import SECOND, Request
from muster_scheduler.simulation.fleets import Places
from muster_scheduler.simulation.generators import Sort, Stream
from muster_scheduler.simulation.members import Members
from muster_scheduler.simulation.scenario import GIB, LARGEST_NODE, MOST_GPUS, MOST_JOBS, Ask, request_of

_MOST_REPLICAS = 10_000


def project_of(each: Members, projects: set[str]) -> str:
    """The project of a job, which has to be one of the scenario's."""
    name = each.text("project")
    if name and name not in projects:
        each.wrong("project", f"there is no project {name!r}: there are {', '.join(sorted(projects)[:10]) or 'none'}")
    return name


def request_in(each: Members, places: Places) -> Request:
    """The request of a job."""
    devices, milli = _gpus(each)
    ask = Ask(
        each.whole("replicas", 1, 1, _MOST_REPLICAS),
        devices,
        milli,
        each.cpu("cpu", MILLI * max(1, devices)),
        each.memory("memory", GIB),
        each.whole("priority", 50, 0, 1000),
        each.flag("preemptible", default=True),
        _known(each, "pools", places.pools, "node pool") or tuple(places.pools[:1]) or ("default",),
        each.whole("retries", 6, 0, 100),
        _known(each, "clusters", places.clusters, "cluster"),
        _choice(each, places),
    )
    return request_of(ask)


def _choice(each: Members, places: Places) -> Terms:
    """Which clusters are tried first."""
    said = each.text("dataLabel", "")
    data = Label.said(said)
    if said and data is None:
        each.wrong("dataLabel", f"{said!r} has no key: write key or key=value")
    preferred = _known(each, "preferredClusters", places.clusters, "cluster")
    return Terms(preferred_clusters=preferred, data=data) if preferred or data else ANYWHERE


def _known(each: Members, name: str, there: list[str], what: str) -> tuple[str, ...]:
    """Names of things that the scenario has to have."""
    wanted = tuple(dict.fromkeys(each.words(name, ())))
    unknown = [one for one in wanted if one not in there]
    if unknown:
        each.wrong(name, f"there is no {what} {unknown[0][:60]!r}: there are {', '.join(there) or 'none'}")
    return wanted


def _gpus(each: Members) -> tuple[int, int]:
    text = each.text("gpus", "1")
    try:
        asked = parse_gpu(text)
    except ValueError as error:
        each.wrong("gpus", str(error))
        return 0, MILLI
    if asked.devices > LARGEST_NODE:
        each.wrong("gpus", f"{text} GPUs on one node: at most {LARGEST_NODE}; a gang has several replicas")
        return 0, MILLI
    return asked.devices, asked.milli or MILLI


def stream_in(each: Members, projects: set[str], places: Places) -> Stream:
    """One stream of arrivals. How many come is said by count, perHour or load; count and load together say how long."""
    project = project_of(each, projects)
    count = each.whole("count", 0, 0, MOST_JOBS)
    per_hour = each.number("perHour", 0.0, 0, MOST_JOBS)
    load = each.number("load", 0.0, 0, 100)
    if count and per_hour:
        each.wrong("perHour", "count is given too: give one of them")
    if not any(name in each for name in ("count", "perHour", "load")):
        each.wrong("count", "nothing says how many come: give count, perHour or load")
    sorts = tuple(_sort(one, number, places) for number, one in enumerate(each.list("classes", 1000)))
    if not sorts:
        each.wrong("classes", "there is no class: give at least one with its duration")
    begin, end = each.span("from", 0), each.span("until", 0)
    if end and end <= begin:
        each.wrong("until", "it ends before it begins: give a later time, or leave it out")
    each.done()
    return Stream(project, sorts, count, per_hour, load, begin, end)


def _sort(one: Members, number: int, places: Places) -> Sort:
    sort = Sort(
        one.text("name", f"class{number}"),
        one.number("share", 1.0, 0.000001, MOST_GPUS),
        request_in(one, places),
        one.span("duration", None, SECOND),
        one.number("spread", 0.0, 0, 5),
        one.number("failing", 0.0, 0, 1),
    )
    one.done()
    return sort
