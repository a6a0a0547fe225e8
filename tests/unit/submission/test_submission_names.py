"""Names: given, numbered, and those of runs."""

from __future__ import annotations

from typing import Any

import pytest

from muster_submission.domain.names import Given, Naming, Prefixed, demand, naming, numbered, resolve, run_name
from muster_submission.domain.problems import Problem


def test_one_way_to_a_name() -> None:
    assert naming("a", None) == Given("a")
    assert naming("", "b") == Prefixed("b")
    for name, prefix, path in (
        (None, None, "name"),
        ("a", "b", "namePrefix"),
        ("A", None, "name"),
        (None, "b-", "namePrefix"),
    ):
        found = naming(name, prefix)
        assert isinstance(found, Problem)
        assert found.path == path


def test_prefix_and_ten_digits_fit() -> None:
    assert naming(None, "p" * 52) == Prefixed("p" * 52)
    assert len(numbered("p" * 52, 9_999_999_999)) == 63
    assert isinstance(naming(None, "p" * 53), Problem)
    for number in (-1, 10**10):
        with pytest.raises(ValueError, match="used up"):
            numbered("p", number)


def test_numbers_are_asked_for_in_one_order_and_given_in_the_callers() -> None:
    namings: list[tuple[str, Naming]] = [
        ("b", Prefixed("x")),
        ("a", Given("g")),
        ("a", Prefixed("x")),
        ("b", Prefixed("x")),
    ]
    assert demand(namings) == [("a", "x", 1), ("b", "x", 2)]
    names = resolve(namings, {("b", "x"): [3, 4], ("a", "x"): [9]})
    assert names == ["x-3", "g", "x-9", "x-4"]


def test_a_run_is_named_after_what_fired_it() -> None:
    told: dict[str, Any] = {"trigger": "p/t", "source": "/s", "event_id": "1", "number": 1}
    name = run_name("base", **told)
    assert name == run_name("base", **told)
    assert (
        len(
            {
                name,
                *(
                    run_name("base", **(told | other))
                    for other in ({"trigger": "p/u"}, {"source": "/r"}, {"event_id": "2"}, {"number": 2})
                ),
            }
        )
        == 5
    )
    assert len(run_name("t" * 63, **told)) == 63
    assert run_name("a" * 49 + "-b", **told).count("--") == 0
    assert len({run_name("base", **(told | {"event_id": str(number)})) for number in range(20_000)}) == 20_000


def test_a_problem_says_its_place() -> None:
    assert Problem("spec.gpu", "no", 3, 4).sentence() == "3:4: no"
    assert Problem("spec.gpu", "no").sentence() == "no"
