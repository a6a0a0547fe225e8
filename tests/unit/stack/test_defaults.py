"""What a fresh stack writes is understood by those who read it."""

from __future__ import annotations

from importlib import resources

import pytest

from muster_cluster_agent.adapters.local.cluster_file import parse
from muster_stack.clusters import DEFAULTS

_DEFAULTS = resources.files("muster_stack") / "defaults"


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_agent_reads_each_default_cluster(name: str) -> None:
    cluster = parse((_DEFAULTS / f"{name}.yaml").read_text(), where=name)
    assert cluster.cluster == name
    assert len(cluster.nodes) == 2
