"""Classes of waiting workloads: what they share, what sets them apart, and that what nobody needs is dropped."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from muster_scheduler.domain.asked.requests import Grant, Shape
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.classes import ClassKey, Kins, alike, asked_by, grant_of
from tests.support.fleets import GIB, START, host, portion, request, role, whole, workload_id


def waiting(number: int, asked: Request, project: str = "p", owner: str = "me") -> Workload:
    """A workload that waits."""
    return Workload(workload_id(number), project=project, owner=owner, submitted=START + number, request=asked)


@dataclass
class Pair:
    """Two workloads and whether they are of one class, and of one kin."""

    one: Workload
    other: Workload
    alike: bool
    kin: bool


PAIRS = [
    Pair(waiting(1, request(role(host()))), waiting(2, request(role(host()))), alike=True, kin=True),
    Pair(waiting(1, request(role(host()))), waiting(2, request(role(host(2000)))), alike=False, kin=True),
    Pair(waiting(1, request(role(portion(250)))), waiting(2, request(role(portion(500)))), alike=False, kin=True),
    Pair(waiting(1, request(role(whole()))), waiting(2, request(role(portion(500)))), alike=False, kin=False),
    Pair(waiting(1, request(role(whole(), 2))), waiting(2, request(role(whole(), 3))), alike=False, kin=False),
    Pair(waiting(1, request(role(host()))), waiting(2, request(role(host())), "q"), alike=False, kin=False),
    Pair(waiting(1, request(role(host()))), waiting(2, request(role(host())), owner="you"), alike=True, kin=True),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_classes_that_differ_in_amounts_alone_are_of_one_kin(pair: Pair) -> None:
    kins = Kins()
    one, other = kins.key_of(pair.one, ""), kins.key_of(pair.other, "")
    assert (one == other) is pair.alike
    assert (one.kin is other.kin) is pair.kin
    assert alike(pair.one, pair.other, by_user=False) is pair.alike


def test_users_set_classes_apart_where_a_project_limits_them() -> None:
    one, other = waiting(1, request(role(host()))), waiting(2, request(role(host())), owner="you")
    kins = Kins()
    assert kins.key_of(one, one.owner) != kins.key_of(other, other.owner)
    assert not alike(one, other, by_user=True)


def test_a_class_of_cpu_alone_knows_what_each_member_gets() -> None:
    kins = Kins()
    extra = Shape(100, GIB, extra=(("licence", 1),))
    found = [kins.key_of(waiting(1, request(role(shape))), "") for shape in (host(1000, GIB), whole(), extra)]
    assert [grant_of(key) for key in found] == [Grant(1000, GIB), None, None]
    assert grant_of(kins.key_of(waiting(1, request(role(host(), 2))), "")) is None


def test_a_gang_asks_for_all_of_its_replicas() -> None:
    roles = role(whole(2), 3), role(host(500, GIB))._replace(name="launcher")
    key = Kins().key_of(waiting(1, request(*roles)), "")
    assert asked_by(key).gpu == 6 * 7_000
    assert asked_by(key).cpu == 3 * roles[0].shape.cpu + 500


def test_kins_of_no_class_are_dropped_when_they_are_the_most() -> None:
    kins = Kins()
    keys: list[ClassKey] = [kins.key_of(waiting(n, request(role(host())), f"p{n}"), "") for n in range(100)]
    kins.drop_unused(keys)
    assert kins.key_of(waiting(7, request(role(host())), "p7"), "").kin is keys[7].kin
    kins.drop_unused(keys[:10])
    assert kins.key_of(waiting(7, request(role(host())), "p7"), "").kin is keys[7].kin
    assert kins.key_of(waiting(70, request(role(host())), "p70"), "").kin is not keys[70].kin


def test_what_was_never_admitted_has_no_class() -> None:
    with pytest.raises(ValueError, match="is not admitted"):
        Kins().key_of(Workload(workload_id(1), project="p"), "")
