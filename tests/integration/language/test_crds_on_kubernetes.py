"""A real Kubernetes API server takes the definitions, explains them, and refuses what they can refuse."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_language.schemas.crds import definitions
from muster_language.schemas.shape import Node, document
from muster_language.spec import Kind
from tests.support.kubernetes import KUBECTL, MISSING, Cluster, built, cluster
from tests.support.schemas import as_kubectl_wants

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)

ROOT = Path(__file__).parents[3]
MADE = definitions()
PLURALS = {made["spec"]["names"]["kind"]: made["spec"]["names"]["plural"] for made in MADE.values()}
SEEDS = sorted((ROOT / "tests/data/seeds").glob("*.yaml"))
NAMESPACE = "runai-team-a"


def examples(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / f"tests/data/crds/{name}.yaml").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server that has the committed definitions and one namespace."""
    with cluster(tmp_path_factory.mktemp("kubernetes")) as found:
        for name in MADE:
            text = (ROOT / "deploy/crds" / name).read_text(encoding="utf-8")
            made = found.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(text))
            assert made.status_code == 201, made.text
        assert found.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).status_code == 201
        established(found)
        yield found


def established(kubernetes: Cluster) -> None:
    """Waits by the server's own watch until each definition is served."""
    waiting = set(MADE)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with kubernetes.http.stream("GET", path, params={"watch": "true", "timeoutSeconds": "30"}) as answer:
        for line in answer.iter_lines():
            item = yaml.safe_load(line)["object"]
            conditions = item.get("status", {}).get("conditions") or ()  # null in the first event of a definition
            states = {each["type"]: each["status"] for each in conditions}
            if states.get("Established") == "True":
                waiting.discard(f"{item['metadata']['name']}.yaml")
            if not waiting:
                return
    raise AssertionError(f"not served: {waiting}")


def create(kubernetes: Cluster, body: dict[str, Any], group: str = "run.ai/v2alpha1") -> tuple[int, str]:
    """The answer to a create that changes nothing, as strict as an API server can be."""
    path = f"/apis/{group}/namespaces/{NAMESPACE}/{PLURALS[body['kind']]}"
    whole = {"apiVersion": group, "metadata": {"name": "example"}, **body}
    answer = kubernetes.post(path, whole, fieldValidation="Strict", dryRun="All")
    return answer.status_code, answer.text


def body_of(example: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in example.items() if key not in {"why", "tag"}}


def test_what_muster_takes_is_taken(kubernetes: Cluster) -> None:
    answers = {example["why"]: create(kubernetes, body_of(example)) for example in examples("good")}
    assert {why: text for why, (code, text) in answers.items() if code != 201} == {}


@pytest.mark.parametrize("tag", ["crd", "server"])
def test_what_muster_refuses_is_refused_where_a_definition_can(kubernetes: Cluster, tag: str) -> None:
    tagged = [example for example in examples("bad") if example["tag"] == tag]
    codes = {example["why"]: create(kubernetes, body_of(example))[0] for example in tagged}
    wanted = {400, 422} if tag == "crd" else {201}
    assert {why: code for why, code in codes.items() if code not in wanted} == {}


def test_the_examples_of_the_seeds_are_taken(kubernetes: Cluster) -> None:
    for file in SEEDS:
        body = as_kubectl_wants(yaml.safe_load(file.read_text(encoding="utf-8")))
        code, text = create(kubernetes, body, body["apiVersion"])
        assert code == 201, f"{file.name}: {text}"


def test_the_published_schema_has_the_descriptions(kubernetes: Cluster) -> None:
    answer = kubernetes.http.get("/openapi/v3/apis/run.ai/v2alpha1")
    schemas = answer.json()["components"]["schemas"]
    for kind in Kind:
        published = schemas[f"ai.run.v2alpha1.{kind.document}"]["properties"]
        spec = document(kind).child("spec")
        assert spec is not None
        for field in spec.children:
            if field.row is None or not field.row.refused:
                assert published["spec"]["properties"][field.name]["description"] == field.description


@pytest.mark.skipif(not KUBECTL.exists(), reason="no kubectl here: `make testbed` builds one")
@pytest.mark.parametrize("path", ["spec.nodeType", "spec.gpu", "spec.ports.items", "spec.pvcs.items.value.claimName"])
def test_kubectl_explains(kubernetes: Cluster, path: str) -> None:
    command = [*kubernetes.kubectl(), "explain", f"trainingworkload.{path}"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    node: Node | None = document(Kind.TRAINING)
    for word in path.replace("items.value", "items.LABEL.value").split("."):
        node = node.child(word) if node is not None else None
    assert node is not None
    assert "KIND:       TrainingWorkload" in told
    assert node.description in " ".join(told.split())
