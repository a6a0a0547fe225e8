"""Workloads that run with fewer replicas than they would have, and what is said of that: for tests of `muster why`."""

from __future__ import annotations

from muster_scheduler.domain import events
from muster_scheduler.domain.answers.growing import Growth
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.workloads import Request, Stretch, Trials, WorkloadKind
from tests.support.asking import why
from tests.support.fleets import Fleet, request, role, whole, workload_id

OTHER = whole(1, cpu=2_000)  # one GPU too, and another revision


def series(completions: int, at_once: int, *, preemptible: bool = True) -> Request:
    """Trials of one GPU each."""
    return request(role(whole()), preemptible=preemptible)._replace(trials=Trials(completions, at_once))


def elastic(least: int, most: int, *, preemptible: bool = True) -> Request:
    """A gang of `least` replicas of one GPU that uses up to `most`."""
    return request(role(whole(), least), preemptible=preemptible)._replace(stretch=Stretch("worker", least, most))


def service(size: int, most: int, *, preemptible: bool = True) -> Request:
    """A service of `size` replicas of one GPU that may be scaled up to `most`."""
    return request(role(whole(), size), kind=WorkloadKind.INFERENCE, max_scale=most, preemptible=preemptible)


def started(fleet: Fleet, asked: Request, number: int = 1, *, project: str = "p") -> Fleet:
    """It runs, has been told to have all that it may, and had time to take it."""
    fleet.submit(number, asked, project=project)
    fleet.run(number)
    if asked.max_scale:
        fleet.send(events.ScaleAdvised(workload_id(number), asked.max_scale))
    fleet.wait(1)
    fleet.wait(30)
    fleet.run(number)
    return fleet


def updated(fleet: Fleet, shape: Shape = OTHER) -> Fleet:
    """A service of four replicas of one GPU runs, and its new revision asks for that shape."""
    started(fleet, service(4, 4))
    fleet.submit(1, service(4, 4)._replace(roles=(role(shape, 4),), generation=2))
    return fleet


def growth(fleet: Fleet, number: int = 1) -> Growth:
    """What is said of a workload that lacks replicas."""
    found = why(fleet, number).growth
    assert found is not None
    return found
