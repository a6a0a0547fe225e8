"""How many processes of each service a stack has: what the option says, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_stack.errors import StackError
from muster_stack.keeper.instances import SERVICES, all_instances, read_counts, write_counts

COUNTS = st.dictionaries(st.sampled_from(SERVICES), st.integers(1, 9))


@given(COUNTS)
def test_what_is_written_is_read_again(counts: dict[str, int]) -> None:
    assert read_counts(write_counts(counts)) == counts


@given(COUNTS)
def test_every_service_is_there_and_no_name_twice(counts: dict[str, int]) -> None:
    found = all_instances(counts)
    names = [each.name for each in found]
    assert len(set(names)) == len(names)
    assert set(SERVICES) <= set(names)
    assert {service: sum(each.service == service for each in found) for service in SERVICES} == (
        dict.fromkeys(SERVICES, 1) | counts
    )


def test_spaces_and_nothing_are_fine() -> None:
    assert read_counts(" submission=2, policy=3 ,") == {"submission": 2, "policy": 3}
    assert read_counts("") == {}
    assert [each.name for each in all_instances({"scheduler": 2})][2:4] == ["scheduler", "scheduler-2"]


@pytest.mark.parametrize("text", ["kafka=2", "submission", "submission=0", "submission=10", "submission=-1", "=2"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(StackError, match="is not SERVICE=COUNT; services are submission, policy"):
        read_counts(text)


def test_a_service_that_is_given_twice_is_refused() -> None:
    with pytest.raises(StackError, match="submission is given twice, 2 and 3"):
        read_counts("submission=2,submission=3")
