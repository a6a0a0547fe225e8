"""The one parser of numbers in headers, and which epochs may follow which."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_chassis.numbers import LARGEST_EPOCH, LARGEST_LEAP, LEAP, epoch_after, number


@given(st.integers(0, LARGEST_EPOCH))
def test_what_was_written_is_read(value: int) -> None:
    assert number(str(value), LARGEST_EPOCH, "epoch") == number(str(value).encode(), LARGEST_EPOCH, "epoch") == value


@given(st.text() | st.binary(), st.integers(0, 2**64))
def test_anything_else_is_refused_within_its_bound(raw: str | bytes, largest: int) -> None:
    try:
        assert 0 <= number(raw, largest, "epoch") <= largest
    except ValueError as error:
        assert str(error).startswith("epoch is ")
        assert len(str(error)) < 600


@pytest.mark.parametrize(
    "raw", [None, "", "-1", "+1", " 1", "1_0", "1.0", "0x1", "\u0663", str(LARGEST_EPOCH + 1), "9" * 1_000_000, b"\xff"]
)
def test_these_are_no_numbers_of_ours(raw: str | bytes | None) -> None:
    with pytest.raises(ValueError, match=r"^epoch is .*expected a number from 0 to"):
        number(raw, LARGEST_EPOCH, "epoch")


@given(st.integers(0, LARGEST_EPOCH), st.integers(-(2**64), 2**64))
def test_an_epoch_follows_another_within_a_leap(last: int, epoch: int) -> None:
    if 0 <= epoch <= min(LARGEST_EPOCH, last + LEAP):
        assert epoch_after(epoch, last, LEAP) == epoch
    else:
        with pytest.raises(ValueError, match="is none of ours"):
            epoch_after(epoch, last, LEAP)


def test_an_agent_obeys_the_epoch_to_which_a_takeover_leaps() -> None:
    assert epoch_after(7 + LEAP + 1, 7, LARGEST_LEAP) == 7 + LEAP + 1


def test_what_kafkas_client_says_of_every_retry_is_not_logged() -> None:
    program = (
        "import logging; from muster_chassis import logs; logs.configure('test', 'test-0', 'debug');"
        "logging.getLogger('aiokafka.cluster').error('Topic muster.tenancy not found in cluster metadata')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=30)
    assert done.stderr == b""
