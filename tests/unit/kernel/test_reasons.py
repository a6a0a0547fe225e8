"""Reasons carry exactly the numbers of their code and read as a sentence."""

from __future__ import annotations

import pytest

from muster_kernel.reasons import FailureClass, Reason, WaitingReason, classify_exit, number_names


@pytest.mark.parametrize("code", list(WaitingReason))
def test_every_reason_is_a_sentence(code: WaitingReason) -> None:
    reason = Reason(code, tuple(7000 * n for n, _ in enumerate(number_names(code), 1)))
    assert "{" not in reason.sentence()
    assert set(reason.named()) == set(number_names(code))


def test_gpus_are_shown_as_gpus() -> None:
    sentence = Reason(WaitingReason.OVER_QUOTA, (24 * 7000, 32 * 7000, 8 * 7000)).sentence()
    assert "uses 24 of the 32 GPUs" in sentence
    assert "8 short" in sentence


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="carries"):
        Reason(WaitingReason.OVER_QUOTA, (1,))


@pytest.mark.parametrize(
    ("code", "failure"),
    [(0, FailureClass.NONE), (137, FailureClass.RETRYABLE_EXIT), (3, FailureClass.EXIT), (132, FailureClass.EXIT)],
)
def test_exit_codes(code: int, failure: FailureClass) -> None:
    assert classify_exit(code) is failure
