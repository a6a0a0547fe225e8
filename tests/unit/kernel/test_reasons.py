"""Reasons carry exactly the numbers of their code and read as a sentence."""

from __future__ import annotations

import pytest

from muster_kernel.reasons import FailureClass, Unsupported, WaitingReason, classify_exit
from muster_kernel.sentences import Reason, number_names

_SO = "there is room for 2 of them so"


@pytest.mark.parametrize("code", list(WaitingReason))
def test_every_reason_is_a_sentence(code: WaitingReason) -> None:
    reason = Reason(code, tuple(7000 * n for n, _ in enumerate(number_names(code), 1)))
    assert "{" not in reason.sentence()
    assert set(reason.named()) == set(number_names(code))


def test_gpus_are_shown_as_gpus() -> None:
    sentence = Reason(WaitingReason.OVER_QUOTA, (24 * 7000, 32 * 7000, 8 * 7000, 0)).sentence()
    assert "uses 24 of the 32 GPUs" in sentence
    assert "8 short" in sentence


@pytest.mark.parametrize(
    ("code", "numbers", "text"),
    [
        (WaitingReason.TOO_LARGE, (7000, 0), "needs 1 GPU on one node; the largest node has 0"),
        (WaitingReason.TOO_LARGE, (42_000, 28_000), "needs 6 GPUs on one node; the largest node has 4"),
        (WaitingReason.NO_CAPACITY, (3500, 1000), "0.5 GPU is asked for and 1/7 is free in the pool"),
        (WaitingReason.NO_CAPACITY, (14_000, 8000), "2 GPUs are asked for and 1 1/7 are free in the pool"),
        (WaitingReason.FRAGMENTED, (7000, 7000), "1 GPU is free in sum, but not where 1 could be placed together"),
        (
            WaitingReason.DEVICE_TOO_SMALL,
            (1 << 30, 0),
            "needs 1Gi of GPU memory on one GPU; its node pools have no GPU that can be shared",
        ),
        (
            WaitingReason.MODEL_OVER_QUOTA,
            (0, 7000, 7000, 0),
            "non-preemptible work uses 0 of the 1 GPU of this model that the project deserves (1 short)",
        ),
        (WaitingReason.CLAIM, (1,), "room has been made for it; 1 workload is still leaving"),
        (WaitingReason.CLAIM, (2,), "room has been made for it; 2 workloads are still leaving"),
        (WaitingReason.BEHIND_OTHERS, (1,), "1 workload is ahead of it"),
        (WaitingReason.NOT_SUPPORTED, (1, Unsupported.FIELDS), "1 cluster does not support fields that it sets"),
        (WaitingReason.NOT_SUPPORTED, (2, Unsupported.SLICES), "2 clusters do not support MIG slices"),
        (
            WaitingReason.TOPOLOGY,
            (4, 2, 2),
            f"its 4 replicas would fit, but not each 2 of them in one domain of their level; {_SO}",
        ),
        (WaitingReason.NODES_UNAVAILABLE, (1, 0, 0, 0), "1 node that could hold it is cordoned"),
        (
            WaitingReason.NODES_UNAVAILABLE,
            (0, 0, 0, 3),
            "3 nodes that could hold it are in silent clusters",
        ),
        (
            WaitingReason.NODES_UNAVAILABLE,
            (2, 1, 1, 0),
            "4 nodes that could hold it take no new work: 2 are cordoned, 1 has to be empty, 1 is out of service",
        ),
    ],
)
def test_one_is_told_in_the_singular(code: WaitingReason, numbers: tuple[int, ...], text: str) -> None:
    assert Reason(code, numbers).sentence() == text


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="carries"):
        Reason(WaitingReason.OVER_QUOTA, (1,))


@pytest.mark.parametrize(
    ("code", "failure"),
    [(0, FailureClass.NONE), (137, FailureClass.RETRYABLE_EXIT), (3, FailureClass.EXIT), (132, FailureClass.EXIT)],
)
def test_exit_codes(code: int, failure: FailureClass) -> None:
    assert classify_exit(code) is failure
