"""What an answer tells of departments and of others' work to a reader who may not see them: no figure, and no sum."""

from __future__ import annotations

from muster_scheduler.domain.answers.explain import Explanation, explain
from muster_scheduler.domain.answers.overpromised import Promises
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from tests.support.fleets import Fleet, node, request, role, whole

RESEARCHER = Viewer(frozenset({"a"}))
OF_DEPARTMENT = Viewer(frozenset({"a", "b"}), frozenset({"d"}))


def fleet_of(held: int, *, limit: int | None = None, gpus: int = 16) -> Fleet:
    """Department d with projects a and b, each deserving 4 GPUs of 16; b holds some, non-preemptibly."""
    fleet = Fleet(*(node(f"n{at}", 8) for at in range(gpus // 8)))
    fleet.department("d", {"default": 6}, **({} if limit is None else {"limit": limit}))
    fleet.project("a", {"default": 4})
    fleet.project("b", {"default": 4})
    fleet.submit(1, request(role(whole(held)), preemptible=False), project="b")
    return fleet


def told(answer: Explanation, viewer: Viewer) -> tuple[object, ...]:
    """What the answer says of quotas and of others; everyone sees how nodes are filled."""
    reason = answer.reason.sentence(department=viewer.sees_department("d")) if answer.reason else ""
    return reason, answer.unblockers, answer.shares, answer.attempts


def asked(fleet: Fleet, viewer: Viewer, *, preemptible: bool, gpus: int = 4) -> tuple[object, ...]:
    fleet.submit(2, request(role(whole(gpus)), preemptible=preemptible), project="a")
    return told(explain(fleet.world, fleet.workload(2), viewer), viewer)


def test_a_departments_quota_is_told_without_figures_to_who_may_not_see_it() -> None:
    few, many = (asked(fleet_of(held), RESEARCHER, preemptible=False) for held in (3, 4))
    assert few == many, "the answer does not depend on what the other project holds"
    assert few[0] == "its department has too little quota left for non-preemptible work"
    assert "department d deserved more GPUs in node pool default" in str(few[1])
    shown = asked(fleet_of(3), OF_DEPARTMENT, preemptible=False)
    assert shown[0] == "non-preemptible work uses 3 of the 6 GPUs that the department deserves (1 short)"
    assert "department d deserved 7 GPUs" in str(shown[1])
    assert [share.queue for share in shown[2]] == ["a", "d"]  # type: ignore[attr-defined]


def test_a_departments_limit_is_told_without_figures_too() -> None:
    few, many = (asked(fleet_of(held, limit=8), RESEARCHER, preemptible=True, gpus=6) for held in (3, 4))
    assert few[:2] == many[:2]
    assert few[0] == "its department is at its limit"


def test_what_others_hold_is_no_figure_and_part_of_no_sum() -> None:
    fleet = fleet_of(3, gpus=8)
    fleet.submit(3, request(role(whole(2)), preemptible=True), project="b")
    fleet.submit(4, request(role(whole(2)), preemptible=True), project="a")
    text = str(asked(fleet, RESEARCHER, preemptible=True)[1:])
    assert "a workload of another project" in text or "of other projects" in text
    assert "3 GPUs, non-preemptible" not in text
    assert "work that is not preemptible holds some of the GPUs there" in text
    assert "3 GPUs" in str(told(explain(fleet.world, fleet.workload(2), EVERYONE), EVERYONE)[1:])


def test_promises_that_cannot_be_kept_are_told_without_figures() -> None:
    fleet = fleet_of(3)
    found = Promises(fleet.world, "default").of("a", RESEARCHER)
    assert "its department promises its projects, or holds, more than its quota allows" in found
    assert not any(letter.isdigit() for text in found for letter in text)
    assert "deserves 6 GPUs and its projects" in Promises(fleet.world, "default").of("a", OF_DEPARTMENT)[0]
    fleet.department("d", {"default": 300})
    assert "all in the pool deserve more together than it has" in Promises(fleet.world, "default").of("a", RESEARCHER)
