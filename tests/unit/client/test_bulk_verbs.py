"""Verbs over many workloads: lists by label and column, deletion by file, selector or all, scaling."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client.cli.selecting import Selector, selectors
from muster_client.errors import InvalidInput
from tests.support.plane_world import World
from tests.unit.client.conftest import Command


def _labelled(**labels: str) -> workload_pb2.WorkloadSpec:
    entries = [workload_pb2.MapEntry(label=key, value=value) for key, value in labels.items()]
    return workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, labels=entries)


@pytest.fixture
def team(world: World) -> World:
    world.add("bert", spec=_labelled(team="nlp", stage="test"), cluster="north")
    world.add("gpt", spec=_labelled(team="nlp"), cluster="south")
    world.add("resnet", spec=_labelled(team="vision"))
    return world


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-l", "team=nlp"], ["bert", "gpt"]),
        (["-l", "team!=nlp"], ["resnet"]),
        (["-l", "stage"], ["bert"]),
        (["-l", "team=nlp,stage=test"], ["bert"]),
        (["-l", "team=nlp", "-l", "stage!=test"], ["gpt"]),
        (["--sort", "name"], ["bert", "gpt", "resnet"]),
        (["--sort", "-name"], ["resnet", "gpt", "bert"]),
        (["--sort=-place"], ["gpt", "bert", "resnet"]),
    ],
)
def test_lists_by_label_and_column(muster: Command, team: World, words: list[str], names: list[str]) -> None:
    assert muster("list", "-o", "name", *words).out.split() == names


@pytest.mark.parametrize("words", [["-l", "a b"], ["-l", "=x"], ["--sort", "colour"]])
def test_what_is_not_understood_says_what_is(muster: Command, world: World, words: list[str]) -> None:
    ran = muster("list", *words)
    assert ran.code == 2
    assert "expected" in ran.err
    assert not world.calls


def test_a_wide_list_is_as_wide_as_it_is(muster: Command, team: World) -> None:
    heading, *rows = muster("list", "-o", "wide").out.splitlines()
    assert {"NAME", "ASKS", "PLACE", "NODES", "OWNER", "ID"} <= set(heading.split())
    assert len(rows) == len(team.workloads)
    assert all(workload in "\n".join(rows) for workload in team.workloads)


def test_selectors_are_values() -> None:
    assert selectors(["a=1,b!=2", "c"]) == [Selector("a", "1"), Selector("b", "2", equal=False), Selector("c")]
    assert not Selector("a", "1").takes({})
    assert Selector("a", "1", equal=False).takes({})
    with pytest.raises(InvalidInput):
        selectors(["a=1,"])


def test_many_are_deleted_only_once_somebody_agreed(
    muster: Command, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = muster("delete", "-l", "team=nlp")
    assert ran.code == 2
    assert "say --yes" in ran.err

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    ran = muster("delete", "-l", "team=nlp")
    assert ran.code == 2
    assert "bert in team-a" in ran.err
    assert "resnet" not in ran.err
    assert not team.asked("DeleteWorkload")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    ran = muster("delete", "-l", "team=nlp")
    assert ran.code == 0
    assert sorted(ran.out.splitlines()) == ["bert: Deleted", "gpt: Deleted"]


def test_all_are_deleted(muster: Command, team: World) -> None:
    told = json.loads(muster("delete", "--all", "--yes", "--json").out)
    assert sorted(each["name"] for each in told) == ["bert", "gpt", "resnet"]
    assert json.loads(muster("delete", "--all", "--yes", "-p", "nowhere", "--json").out) == []


def test_what_a_file_names_is_deleted(muster: Command, team: World, tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    document = "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata: {{name: {0}}}\nspec: {1}\n"
    plain, template = "{image: {value: python}}", "{usage: Template, image: {value: python}}"
    path.write_text("---\n".join([document.format("bert", plain), document.format("base", template)]))
    ran = muster("delete", "-f", str(path), "--yes")
    assert ran.code == 0
    assert sorted(ran.out.splitlines()) == ["bert: Deleted", "template base: deleted"]
    assert [each.name for each in team.asked("DeleteTemplate")] == ["base"]


def test_one_that_is_not_there_does_not_keep_the_others(muster: Command, team: World) -> None:
    ran = muster("delete", "bert", "nobody", "gpt")
    assert ran.code == 3
    assert "nobody" in ran.err
    assert len(team.asked("DeleteWorkload")) == 2


@pytest.mark.parametrize("words", [[], ["bert", "--all"], ["--all", "-l", "a=b"]])
def test_one_way_of_saying_what_to_delete(muster: Command, team: World, words: list[str]) -> None:
    assert muster("delete", *words).code == 2
    assert not team.asked("DeleteWorkload")


def test_no_more_than_a_bounded_number_is_deleted_at_once(
    muster: Command, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster_client.cli.deleting._MOST", 2)
    ran = muster("delete", "--all", "--yes")
    assert len(team.asked("DeleteWorkload")) == 2
    assert "repeat it for the others" in ran.err


SERVICE = """apiVersion: run.ai/v2alpha1
kind: InferenceWorkload
metadata: {name: web}
spec: {image: {value: python}, minScale: {value: 1}, maxScale: {value: 2}}
"""


@pytest.mark.parametrize(
    ("words", "least", "most"), [(["--min", "2"], 2, 2), (["--max", "5"], 1, 5), (["--replicas", "3"], 3, 3)]
)
def test_a_service_is_scaled(muster: Command, world: World, words: list[str], least: int, most: int) -> None:
    world.documents["web"] = SERVICE
    world.add("web", spec=workload_pb2.WorkloadSpec(kind=options_pb2.KIND_INFERENCE))
    assert muster("scale", "web", *words).code == 0
    (asked,) = world.asked("ApplyWorkload")
    assert f"minScale:\n    value: {least}" in asked.draft.yaml
    assert f"maxScale:\n    value: {most}" in asked.draft.yaml


@pytest.mark.parametrize(
    "words", [[], ["--min", "3"], ["--min", "-1"], ["--max", "0"], ["--min", "1", "--replicas", "2"]]
)
def test_a_scale_that_cannot_be(muster: Command, world: World, words: list[str]) -> None:
    world.documents["web"] = SERVICE
    world.add("web", spec=workload_pb2.WorkloadSpec(kind=options_pb2.KIND_INFERENCE))
    assert muster("scale", "web", *words).code == 2
    assert not world.asked("ApplyWorkload")


def test_a_scale_or_a_change_that_policy_refuses_says_so(muster: Command, world: World, tmp_path: Path) -> None:
    world.documents["web"] = SERVICE
    issues = ["autoscaling.metric: scaling between 1 and 5 replicas needs a metric"]
    world.add("web", phase=workload_pb2.PHASE_RUNNING, spec=workload_pb2.WorkloadSpec(kind=options_pb2.KIND_INFERENCE))
    world.workloads[next(iter(world.workloads))].issues.extend(issues)
    (tmp_path / "web.yaml").write_text(SERVICE)
    for words in (["scale", "web", "--max", "5"], ["apply", "-f", str(tmp_path / "web.yaml")]):
        ran = muster(*words)
        assert ran.code == 1
        assert "refused by policy, it stays as it was" in ran.out
        assert "needs a metric" in ran.out


def test_only_services_are_scaled(muster: Command, world: World) -> None:
    world.add("bert")
    ran = muster("scale", "bert", "--replicas", "2")
    assert ran.code == 2
    assert "Training" in ran.err


def test_one_node_is_told_in_full(muster: Command, world: World) -> None:
    node = fleet_pb2.NodeView(name="north-0", cluster="north", pool="default", state=fleet_pb2.NODE_STATE_READY)
    node.devices.add(uuid="GPU-1", model="A100", mode="whole", workloads=["bert"])
    world.nodes = [node]
    out = muster("nodes", "describe", "north-0").out
    assert "GPU-1" in out
    assert "bert" in out
    assert muster("nodes", "describe", "nowhere").code == 3
    world.nodes = [node, fleet_pb2.NodeView(name="north-0", cluster="south")]
    assert "--cluster" in muster("nodes", "describe", "north-0").err


def test_a_node_is_cordoned_drained_and_opened_again(muster: Command, world: World) -> None:
    world.nodes = [fleet_pb2.NodeView(name="north-0", cluster="north", state=fleet_pb2.NODE_STATE_READY)]
    assert muster("nodes", "cordon", "north-0").out == "node north-0 of north: Cordoned\n"
    assert muster("nodes", "drain", "north-0", "--within", "2h").out == "node north-0 of north: Draining\n"
    assert muster("nodes", "uncordon", "north-0").out == "node north-0 of north: Ready\n"
    asked = [(each.state, each.within_seconds) for each in world.asked("OrderNode")]
    assert asked == [
        (fleet_pb2.NODE_STATE_CORDONED, 0),
        (fleet_pb2.NODE_STATE_DRAINING, 7200),
        (fleet_pb2.NODE_STATE_READY, 0),
    ]
    assert muster("nodes", "cordon", "nowhere").code == 3


def test_a_layout_is_ordered_followed_and_taken_back(muster: Command, world: World) -> None:
    world.nodes = [fleet_pb2.NodeView(name="north-0", cluster="north", state=fleet_pb2.NODE_STATE_READY)]
    ran = muster("nodes", "set-layout", "north", "north-0", "all-1g.10gb")
    assert ran.out.startswith("node north-0 of north: changes to all-1g.10gb (waits until nothing of Muster is left")
    assert "ordered by anna" in ran.out
    assert "MIG layout" in muster("nodes").out
    assert "changes to all-1g.10gb" in muster("nodes", "describe", "north-0").out
    told = json.loads(muster("nodes", "set-layout", "north", "north-0", "all-1g.10gb", "--json").out)
    assert told["layout"]["config"] == "all-1g.10gb"
    assert "is taken back" in muster("nodes", "set-layout", "north", "north-0", "--cancel").out
    assert [each.config for each in world.asked("SetNodeLayout")] == ["all-1g.10gb", "all-1g.10gb", ""]
    world.nodes[0].layout_failure = "the mig-manager said failed"
    assert "the last change failed: the mig-manager said failed" in muster("nodes", "describe", "north-0").out


@pytest.mark.parametrize("said", [(), ("all-1g.10gb", "--cancel")])
def test_a_layout_is_either_named_or_taken_back(muster: Command, world: World, said: tuple[str, ...]) -> None:
    ran = muster("nodes", "set-layout", "north", "north-0", *said)
    assert ran.code == 2
    assert "--cancel" in ran.err
    assert not world.calls


@pytest.mark.parametrize("within", ["soon", "31d", "-1s", "5"])
def test_a_drain_that_cannot_be(muster: Command, world: World, within: str) -> None:
    ran = muster("nodes", "drain", "north-0", f"--within={within}")
    assert ran.code == 2
    assert "0s to 30d" in ran.err
    assert not world.calls
