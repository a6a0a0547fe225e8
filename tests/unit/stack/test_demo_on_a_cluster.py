"""The demo on a Kubernetes cluster: what its agent reads, and what the summary shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_stack.demo.command import demo
from muster_stack.demo.kubernetes import KubernetesDemo
from muster_stack.demo.screen import Outcome, Screen
from muster_stack.kubernetes_clusters import KubernetesCluster


def test_its_agent_reads_the_declaration() -> None:
    there = KubernetesDemo(KubernetesCluster("lab", Path("/somewhere/config"), "admin"), {})
    file = parse(there.declaration(), where=Path("/clusters/lab.yaml"))
    assert (file.cluster, file.kubeconfig, file.context) == ("demo-lab", Path("/somewhere/config"), "admin")
    assert (file.namespace, file.managed) == ("muster-demo-lab", True)


def test_what_is_explained_is_neither_proved_nor_failed() -> None:
    console = Console(width=100, record=True)
    outcomes = [
        Outcome("one", "it did", 1.0, happened=True),
        Outcome("two", "no cluster divides GPUs", 1.0, happened=False, explained=True),
        Outcome("three", "it did not", 1.0, happened=False),
    ]
    Screen(console).checks(outcomes, 3.0)
    lines = console.export_text().splitlines()
    assert [line.split()[0] for line in lines if " s  " in line] == ["✔", "–", "✘"]  # noqa: RUF001
    assert lines[-1] == "1 of 3 happened, 1 are explained, in 3 s"


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(cluster=f"kubeconfig={tmp_path / 'none'}") == 1
    assert f"the kubeconfig {tmp_path / 'none'} cannot be read" in capsys.readouterr().err
    assert demo(cluster="kubeconfig=x", only=["nothing"]) == 2
    assert "there are half-a-gpu, data-parallel, allreduce, squares, caller" in capsys.readouterr().err
