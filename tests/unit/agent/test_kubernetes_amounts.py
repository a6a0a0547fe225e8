"""Quantities of the API as whole numbers, and what a pod asks for in all."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.domain.kubernetes.amounts import Amounts, amounts_of, quantities, quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("250m", Fraction(1, 4)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("129e6", Fraction(129_000_000)),
        ("1E", Fraction(10**18)),
        (".5", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
        ("2k", Fraction(2000)),
    ],
)
def test_quantities_are_those_of_the_api(text: str, value: Fraction) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1Kb", "one", "1e999", "1e-99", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        quantity(text)


@given(st.integers(0, 10**6), st.sampled_from(["m", "", "k"]))
def test_cpu_is_counted_in_thousandths_and_rounded_up(number: int, suffix: str) -> None:
    factor = {"m": 1, "": 1000, "k": 10**6}[suffix]
    assert quantities({"cpu": f"{number}{suffix}", "ephemeral-storage": "odd"}) == {"cpu": number * factor}
    assert quantities({"cpu": f"{number}.0001m"}) == {"cpu": number + 1}


def container(cpu: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"resources": {"requests": {"cpu": cpu}, "limits": limits}, **more}


def test_a_pod_asks_for_its_containers_and_for_the_largest_of_what_runs_before() -> None:
    spec = {
        "containers": [container("1", gpus=2), container("500m")],
        "initContainers": [container("200m", restartPolicy="Always"), container("4")],
        "overhead": {"cpu": "100m", "memory": "1Mi"},
    }
    # The sidecar runs beside everything that follows it: 4 + 0.2 before, 1.5 + 0.2 afterwards.
    assert amounts_of(spec) == Amounts(4300, 1 << 20, (("nvidia.com/gpu", 2),))


def test_a_limit_without_a_request_is_the_request() -> None:
    assert amounts_of({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]}) == Amounts(
        2000, 1 << 30
    )
