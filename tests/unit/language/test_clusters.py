"""A workload neither asks for a cluster nor prefers one in which it may not run."""

from __future__ import annotations

import pytest

from muster.workload.v1 import workload_pb2
from muster_language import WorkloadSpec, check_clusters


def against(allowed: list[str], preferred: list[str], asked: str = "") -> dict[str, tuple[str, str, str]]:
    """What stands against these, by field: what was given, what is allowed, and the sentence."""
    clusters, wished = (workload_pb2.StringList(values=values) for values in (allowed, preferred))
    spec = WorkloadSpec(clusters=clusters, preferred_clusters=wished)
    return {each.path: (each.given, each.allowed, each.details) for each in check_clusters(spec, asked)}


@pytest.mark.parametrize(
    ("allowed", "preferred", "asked"),
    [
        ([], [], ""),
        ([], ["a"], "b"),
        (["a"], [], "a"),
        (["a", "b"], ["b", "a"], ""),
        (["a", "b"], ["b"], "a"),  # a wish that does not count beside the one that was asked for
    ],
)
def test_what_agrees(allowed: list[str], preferred: list[str], asked: str) -> None:
    assert against(allowed, preferred, asked) == {}


def test_what_does_not_is_said_with_what_would() -> None:
    assert against(["b", "a"], ["a", "c"], "d") == {
        "clusters": (
            "d",
            "b, a",
            (
                "cluster d was asked for, but the workload may run in b, a only: "
                "ask for one of these or for none, or add d to clusters"
            ),
        ),
        "preferredClusters": (
            "c",
            "b, a",
            "cluster c is preferred, but the workload may run in b, a only: prefer one of these, or add c to clusters",
        ),
    }


def test_of_many_clusters_the_first_are_named() -> None:
    _, allowed, _ = against([f"c{number}" for number in range(11)], ["d"])["preferredClusters"]
    assert allowed == "c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, .."
