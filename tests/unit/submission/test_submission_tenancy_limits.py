"""What departments and projects have beside names and GPUs: shares, limits, rules, node types."""

from __future__ import annotations

import pytest

from muster_submission.domain.problems import Problem
from muster_submission.domain.tenancy import (
    LARGEST_CPU,
    LARGEST_MEMORY,
    LARGEST_RANK,
    LONGEST_RULE,
    Limits,
    Quota,
    Share,
    check_default_pools,
    check_department,
    check_limits,
    check_quota,
    check_quotas,
)

MANY = [f"a{number}" for number in range(101)]


def paths(problems: list[Problem]) -> set[str]:
    return {one.path for one in problems}


def test_shares_of_cpu_and_memory() -> None:
    good = Quota("default", 0, None, 0, Share(0, 0, 0), Share(None, 5, None))
    assert check_quota("q", good) == []
    bad = Quota("default", 0, None, 0, Share(LARGEST_CPU + 1, LARGEST_CPU + 2), Share(9, 8, 1_000_001))
    assert paths(check_quota("q", bad)) == {
        "q.cpu_milli_deserved",
        "q.cpu_milli_limit",
        "q.memory_bytes_limit",
        "q.memory_over_quota_weight_milli",
    }
    assert paths(check_quota("q", Quota("a", 0, None, 0, memory=Share(LARGEST_MEMORY + 1)))) == {
        "q.memory_bytes_deserved"
    }


def test_departments() -> None:
    assert check_department("research", [Quota("default", 7000, None, 1)]) == []
    assert paths(check_department("Bad", [Quota("No", 0, None, 0)])) == {"name", "quotas.0.node_pool"}


def test_pools_stand_once() -> None:
    assert check_default_pools(["a", "b"]) == []
    assert paths(check_default_pools(["a", "a", "B"])) == {"default_node_pools", "default_node_pools.2"}
    assert paths(check_default_pools(MANY)) == {"default_node_pools"}
    assert paths(check_quotas([Quota(name, 0, None, 0) for name in MANY])) == {"quotas"}


def test_a_project_may_only_tighten() -> None:
    above = {"training_time_limit_seconds": 60, "training_idle_limit_seconds": None}
    assert check_limits(Limits(rules={"training_time_limit_seconds": 60}), above) == []
    assert check_limits(Limits(rules={"training_time_limit_seconds": None}), above) == []
    assert check_limits(Limits(rules={"training_idle_limit_seconds": LONGEST_RULE}), above) == []
    (problem,) = check_limits(Limits(rules={"training_time_limit_seconds": 61}), above)
    assert "at most 60 seconds" in problem.message


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(models=[("A100-40GB", 1, None)], users=["", "default"], training_types=["dgx"]), set()),
        (Limits(models=[("!", 2, 1)]), {"model_quotas.0.model", "model_quotas.0.gpu_limit"}),
        (Limits(models=[("A", 0, None), ("A", 0, None)]), {"model_quotas"}),
        (Limits(models=[(name, 0, None) for name in MANY]), {"model_quotas"}),
        (Limits(users=["", ""]), {"user_limits"}),
        (Limits(users=["No"]), {"user_limits.0.node_pool"}),
        (Limits(users=MANY), {"user_limits"}),
        (Limits(rules={"training_time_limit_seconds": 0}), {"rules.training_time_limit_seconds"}),
        (Limits(rules={"training_time_limit_seconds": LONGEST_RULE + 1}), {"rules.training_time_limit_seconds"}),
        (Limits(training_types=["-"], workspace_types=["a", "a"]), {"node_types.training.0", "node_types.workspace"}),
        (Limits(workspace_types=MANY), {"node_types.workspace"}),
        (Limits(rank=LARGEST_RANK + 1), {"rank"}),
        (Limits(description="x" * 1001), {"description"}),
        (Limits(description="\x00"), {"description"}),
    ],
)
def test_limits(limits: Limits, expected: set[str]) -> None:
    assert paths(check_limits(limits)) == expected
