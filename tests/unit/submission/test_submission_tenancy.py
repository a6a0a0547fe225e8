"""Projects and quotas: what may stand in them."""

from __future__ import annotations

from muster_submission.domain.tenancy import LARGEST_QUOTA, Quota, check_project, check_quota, namespace_of


def paths(*problems: object) -> set[str]:
    return {getattr(one, "path", "") for one in problems}


def test_a_namespace_follows_from_the_name_unless_asked_for() -> None:
    assert namespace_of("team-a", "") == "runai-team-a"
    assert namespace_of("team-a", "mine") == "mine"


def test_good_projects() -> None:
    assert check_project("team-a", "", [Quota("default", 7000, None, 1), Quota("h100", 0, 0, 0)], ["h100"]) == []
    assert check_project("p" * 57, "", [], []) == []
    assert check_project("p" * 63, "mine", [], []) == []


def test_everything_wrong_is_said() -> None:
    assert paths(*check_project("p" * 58, "", [], [])) == {"name"}
    assert paths(*check_project("a", "runai", [], [])) == {"namespace"}
    assert paths(*check_project("a", "kube-public", [], ["No"])) == {"namespace", "default_node_pools.0"}
    twice = [Quota("x", 1, None, 1), Quota("x", 1, None, 1)]
    assert paths(*check_project("a", "", twice, [])) == {"quotas"}
    many = [Quota(f"p{number}", 0, None, 0) for number in range(101)]
    assert paths(*check_project("a", "", many, [])) == {"quotas"}
    assert paths(*check_quota("quota", Quota("", LARGEST_QUOTA + 1, 5, 1_000_001))) == {
        "quota.node_pool",
        "quota.gpu_deserved",
        "quota.gpu_limit",
        "quota.over_quota_weight_milli",
    }
