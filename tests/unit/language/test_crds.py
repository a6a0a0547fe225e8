"""The definitions for Kubernetes are those of the catalogue, bounded, and refuse what Muster refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_language import check_effective, check_layer, read
from muster_language.schemas.crds import MOST_ITEMS, definitions, main, written
from muster_language.schemas.shape import Node, colossal, document
from muster_language.spec import Kind
from tests.support.schemas import EITHER, KEPT, RULES, as_kubectl_wants, nodes, refusals, schema_of

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "crds"
MADE = definitions()
KINDS = {made["spec"]["names"]["kind"]: schema_of(made) for made in MADE.values()}
GOOD = yaml.safe_load((ROOT / "tests/data/crds/good.yaml").read_text(encoding="utf-8"))
BAD = yaml.safe_load((ROOT / "tests/data/crds/bad.yaml").read_text(encoding="utf-8"))


def whole(example: dict[str, Any]) -> dict[str, Any]:
    """The document of an example."""
    head = {"apiVersion": "run.ai/v2alpha1", "metadata": {"name": "example", "namespace": "runai-team-a"}}
    return {**head, **{key: value for key, value in example.items() if key not in {"why", "tag"}}}


def said(example: dict[str, Any]) -> list[str]:
    """What Muster has against an example, at the edge or in the end."""
    [read_one] = read(yaml.safe_dump(whole(example)))
    if read_one.violations:
        return [each.text for each in read_one.violations]
    assert read_one.spec is not None
    return [each.details for each in check_effective(read_one.spec)]


def test_the_committed_definitions_are_up_to_date() -> None:
    again = "write them anew: python -m muster_language.schemas.crds deploy/crds"
    assert {file.name for file in FOLDER.iterdir()} == set(MADE), again
    for name, made in MADE.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == written(made), again


def test_the_files_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    main(tmp_path / "crds")
    assert {file.name: file.read_bytes() for file in (tmp_path / "crds").iterdir()} == {
        file.name: file.read_bytes() for file in FOLDER.iterdir()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_schema_is_structural_and_bounded(kind: str) -> None:
    for place, schema in nodes(KINDS[kind]):
        assert "type" in schema or EITHER in schema, place
        assert bool(schema.get(KEPT)) == place.endswith(".template"), place
        if "additionalProperties" in schema:
            assert schema["maxProperties"] == MOST_ITEMS, place
        if schema.get("type") == "array":
            assert schema["maxItems"] <= MOST_ITEMS, place
        if schema.get("type") == "string" and place.count(".") > 1:
            assert "maxLength" in schema or "enum" in schema, place
        if RULES in schema:
            assert all(rule["message"] for rule in schema[RULES]), place


@pytest.mark.parametrize("root", [*(document(kind) for kind in Kind), colossal()], ids=lambda root: str(root.name))
def test_every_key_is_described(root: Node) -> None:
    def compare(node: Node, schema: dict[str, Any]) -> None:
        assert schema["description"] == node.description
        for each in node.children:
            if each.row is not None and each.row.refused:
                assert each.name not in schema["properties"]
                continue
            inner = schema.get("properties", {}).get(each.name, schema.get("additionalProperties", schema.get("items")))
            inner = inner["properties"][each.name] if schema.get("type") == "array" else inner
            compare(each, inner)

    for part in ("spec", "masterSpec"):
        node = root.child(part)
        if node is not None:
            compare(node, KINDS[root.name]["properties"][part])


@pytest.mark.parametrize("example", GOOD, ids=lambda example: str(example["why"]))
def test_what_muster_takes_kubernetes_takes(example: dict[str, Any]) -> None:
    [read_one] = read(yaml.safe_dump(whole(example)))
    assert read_one.spec is not None
    assert [*read_one.violations, *check_layer(read_one.spec)] == []
    assert refusals(KINDS[example["kind"]], whole(example)) == []


@pytest.mark.parametrize("example", BAD, ids=lambda example: str(example["why"]))
def test_what_muster_refuses_kubernetes_refuses_where_it_can(example: dict[str, Any]) -> None:
    assert said(example) != []
    assert bool(refusals(KINDS[example["kind"]], whole(example))) == (example["tag"] == "crd")


@pytest.mark.parametrize("file", sorted((ROOT / "tests/data/seeds").glob("*.yaml")), ids=lambda file: str(file.stem))
def test_the_examples_of_the_seeds_are_taken(file: Path) -> None:
    document = as_kubectl_wants(yaml.safe_load(file.read_text(encoding="utf-8")))
    assert refusals(KINDS[document["kind"]], document) == []


COLOSSAL = yaml.safe_load((ROOT / "tests/data/seeds/004-colossal-ai-job.yaml").read_text(encoding="utf-8"))


def changed(**parts: Any) -> dict[str, Any]:
    """The example job with other parts; its restart policy as an object, which is the only form that a schema has."""
    spec = {**COLOSSAL["spec"], **parts}
    spec["replicaSpecs"] = [{**each, "restartPolicy": {"policy": "OnFailure"}} for each in spec["replicaSpecs"]]
    return {**COLOSSAL, "spec": spec}


def test_a_colossal_job() -> None:
    schema, replicas = KINDS["ColossalAIJob"], COLOSSAL["spec"]["replicaSpecs"]
    assert refusals(schema, changed()) == []
    for wrong in (
        changed(replicaSpecs=replicas[:1]),
        changed(replicaSpecs=[*replicas, replicas[0]]),
        changed(replicaSpecs=[]),
        changed(torchConfig={"script": ["train"]}),
        changed(torchConfig={"script": ["train.py"], "extraArgs": ["--nnodes=2"]}),
        changed(torchConfig={}),
        changed(launcher={}),
    ):
        assert refusals(schema, wrong) != []
