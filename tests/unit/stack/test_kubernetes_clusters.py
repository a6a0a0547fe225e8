"""A Kubernetes cluster of a stack: what the option means, and the declaration that is written for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from muster_stack.clusters import declared
from muster_stack.errors import StackError
from muster_stack.kubernetes_clusters import KubernetesCluster, declare, read_option
from muster_stack.layout import Layout

CONFIG = {"current-context": "Lab_1@admin", "contexts": [{"name": "Lab_1@admin"}, {"name": "other"}]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(CONFIG))
    return file


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of(tmp_path / "data")


def test_the_current_context_names_the_cluster(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = KubernetesCluster("lab-1-admin", config, "")
    assert read_option(f"kubeconfig={config}") == expected
    monkeypatch.setenv("KUBECONFIG", f"{config}:/elsewhere")
    assert read_option("kubeconfig") == expected
    assert read_option("kubeconfig,context=other,name=lab") == KubernetesCluster("lab", config, "other")
    assert read_option("context=other,kubeconfig") == KubernetesCluster("other", config, "other")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("lab", "expected kubeconfig"),
        ("context=other", "expected kubeconfig"),
        ("kubeconfig=a,kubeconfig=b", "expected kubeconfig"),
        ("kubeconfig=/nowhere/config", "cannot be read: No such file"),
        ("kubeconfig={config},name=10", "the cluster needs a name, name=NAME .*beginning with a letter"),
        ("kubeconfig={config},context=third", "has no context third; it has Lab_1@admin, other"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(config: Path, option: str, said: str) -> None:
    with pytest.raises(StackError, match=said):
        read_option(option.format(config=config))


@pytest.mark.parametrize(
    ("text", "said"), [("a: [", "is not a kubeconfig"), ("contexts: []", "has no current context")]
)
def test_a_file_without_a_cluster_is_refused(config: Path, text: str, said: str) -> None:
    config.write_text(text)
    with pytest.raises(StackError, match=said):
        read_option(f"kubeconfig={config}")


def test_it_is_declared_in_addition_and_never_changed(config: Path, layout: Layout) -> None:
    declare(layout, [f"kubeconfig={config},name=lab"])
    assert [one.name for one in declared(layout)] == ["lab", "north", "south"]
    file = layout.clusters / "lab.yaml"
    assert yaml.safe_load(file.read_text()) == {"cluster": "lab", "backend": "kubernetes", "kubeconfig": str(config)}
    file.write_text(f"{file.read_text()}allow: [hostPath]\n")
    declare(layout, [f"kubeconfig={config},name=lab"])
    assert "hostPath" in file.read_text()
    with pytest.raises(StackError, match="declares cluster lab with another context"):
        declare(layout, [f"kubeconfig={config},context=other,name=lab"])


def test_without_the_option_nothing_is_written(layout: Layout) -> None:
    declare(layout, [])
    assert not layout.root.exists()
