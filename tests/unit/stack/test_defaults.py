"""What a fresh stack writes is understood by those who read it."""

from __future__ import annotations

from importlib import resources

import pytest

from muster_cluster_agent.adapters.local.cluster_file import parse
from muster_policy_engine.documents import document
from muster_stack.clusters import DEFAULTS

_DEFAULTS = resources.files("muster_stack") / "defaults"


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_agent_reads_each_default_cluster(name: str) -> None:
    cluster = parse((_DEFAULTS / f"{name}.yaml").read_text(), where=name)
    assert cluster.cluster == name
    assert len(cluster.nodes) == 2


def test_the_default_policy_imposes_nothing() -> None:
    policy = document.parse((_DEFAULTS / "policy.yaml").read_text())
    assert policy.name == "default"
    assert not any(section.rules for section in policy.sections.values())


def test_the_example_in_the_default_policy_is_valid() -> None:
    lines = (_DEFAULTS / "policy.yaml").read_text().splitlines()
    example = [line.removeprefix("#   ") for line in lines if line.startswith("#   ")]
    policy = document.parse("\n".join(example))
    assert any(section.rules for section in policy.sections.values())
