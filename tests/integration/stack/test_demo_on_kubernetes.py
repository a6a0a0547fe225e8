"""What the demo deletes in a cluster, and when it does not begin, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes import marks
from muster_stack.demo.kubernetes import KubernetesDemo
from muster_stack.errors import StackError
from muster_stack.kubernetes_clusters import KubernetesCluster
from tests.support.kubernetes import MISSING, Cluster, built, cluster

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as found:
        (tmp_path / "kubeconfig").write_text(found.kubeconfig())
        yield found


def made_for(name: str) -> dict[str, Any]:
    """An object as an agent of that cluster of Muster makes it."""
    labels = {marks.MANAGED_BY: marks.MANAGER, marks.CLUSTER: name}
    metadata = {"name": f"of-{name}", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_it_takes_a_cluster_of_its_own_and_leaves_the_others_alone(
    kubernetes: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = KubernetesDemo(KubernetesCluster("lab", tmp_path / "kubeconfig", ""), {})
    assert demo.name == "demo-lab"
    kubernetes.apply([made_for("lab")])
    demo.check()
    kubernetes.apply([made_for("demo-lab")])
    with pytest.raises(StackError, match=r"1 objects of cluster demo-lab are there already.*--namespaces --yes"):
        demo.check()
    assert demo.clean() == 0
    assert capsys.readouterr().err == ""
    left = kubernetes.labelled(marks.SELECTOR)
    assert left == {"configmaps/default/of-lab"}


def test_a_long_name_stays_one(tmp_path: Path) -> None:
    demo = KubernetesDemo(KubernetesCluster("a" * 34 + "-bcdef", tmp_path, ""), {})
    assert demo.name == "demo-" + "a" * 34
