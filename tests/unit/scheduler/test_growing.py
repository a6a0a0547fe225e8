"""Why what runs has no more replicas: how many of how many, what stands against the next one, what would help."""

from __future__ import annotations

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.growing import Growth
from muster_scheduler.domain.asked.workloads import Request, Stretch, Trials, WorkloadKind
from tests.support.asking import why
from tests.support.fleets import Fleet, node, request, role, whole, workload_id


def series(completions: int, at_once: int, devices: int = 1, **more: bool) -> Request:
    return request(role(whole(devices)), **more)._replace(trials=Trials(completions, at_once))  # type: ignore[arg-type]


def elastic(least: int, most: int, devices: int = 1, **more: bool) -> Request:
    made = request(role(whole(devices), least), **more)  # type: ignore[arg-type]
    return made._replace(stretch=Stretch("worker", least, most))


def service(size: int, most: int, devices: int = 1, **more: bool) -> Request:
    return request(role(whole(devices), size), kind=WorkloadKind.INFERENCE, max_scale=most, **more)  # type: ignore[arg-type]


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


def growth(fleet: Fleet, number: int = 1) -> Growth:
    found = why(fleet, number).growth
    assert found is not None
    return found


EACH = pytest.mark.parametrize(
    "asked", [series(9, 6), elastic(2, 6), service(1, 6)], ids=["trials", "elastic", "service"]
)


@EACH
def test_one_that_has_all_or_waits_is_told_nothing_of_growing(asked: Request) -> None:
    fleet = started(Fleet(node("a", 8)), asked)
    assert len(fleet.workload(1).replicas) == 6
    assert why(fleet, 1).growth is None
    fleet.submit(2, request(role(whole(8))))
    assert why(fleet, 2).growth is None


@EACH
def test_a_limit_is_told_with_its_numbers_and_how_large_it_would_have_to_be(asked: Request) -> None:
    fleet = Fleet(node("a", 8))
    fleet.project("p", {"default": 100}, limit=4)
    told = growth(started(fleet, asked))
    assert (told.has, told.wanted, told.code) == (4, 6, "OverLimit")
    assert told.text == "the project uses 4 of the 4 GPUs that it may hold at most (1 short)"
    assert told.helps == ("p might hold 5 GPUs in node pool default",)
    assert [(share.queue, share.held) for share in why(fleet, 1).shares] == [("p", 4 * GPU)]
    fleet.project("p", {"default": 100}, limit=5)
    fleet.wait(30)
    assert len(fleet.workload(1).replicas) == 5
