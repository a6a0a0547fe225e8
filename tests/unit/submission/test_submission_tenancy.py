"""Projects and quotas: what may stand in them."""

from __future__ import annotations

from muster_submission.domain.tenancy import LARGEST_QUOTA, Quota, Share, check_project, check_quota, namespace_of


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


def test_what_is_wrong_is_said_in_the_units_that_people_write() -> None:
    (low,) = check_quota("q", Quota("a", 35_000, 10_500, 0))
    assert low.message == "1.5 GPUs is below the 5 GPUs deserved: at least as much, or none"
    (one,) = check_quota("q", Quota("a", 14_000, 7_000, 0))
    assert one.message == "1 GPU is below the 2 GPUs deserved: at least as much, or none"
    (heavy,) = check_quota("q", Quota("a", 0, None, 1_500_500))
    assert heavy.message == "1500.5 is no weight: 0 to 1000 are allowed"
    (cores,) = check_quota("q", Quota("a", 0, None, 0, cpu=Share(2500, 500)))
    assert cores.message == "0.5 core is below the 2.5 cores deserved: at least as much, or none"
    (much,) = check_quota("q", Quota("a", LARGEST_QUOTA + 7000, None, 0))
    assert much.message == "10000001 GPUs is too much: at most 10000000 GPUs"
