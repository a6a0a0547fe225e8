"""`explain` says what the catalogue says, for every key of every document, and helps where something is not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster_language import Kind, catalogue, explain
from muster_language.schemas.shape import Node, colossal, document

DOCUMENTS = [*(document(kind) for kind in Kind), colossal()]


def keys(node: Node, place: str) -> Iterator[tuple[str, Node]]:
    """Every key below a node with its path."""
    for each in node.children:
        yield f"{place}.{each.name}", each
        yield from keys(each, f"{place}.{each.name}")


def test_a_field() -> None:
    text = explain("trainingworkload.spec.gpu")
    assert text.startswith(
        "KIND:        TrainingWorkload\nVERSION:     run.ai/v2alpha1\nRESOURCE:    trainingworkload.spec.gpu <Object>"
    )
    assert "0.01 to 1 a portion of one\n    device, a whole number above 1 that many devices" in text
    assert (
        "  Range:        0, or a portion from 0.01 to 1 in steps of 0.01, or a whole\n                number to 64\n"
        in text
    )
    assert "Excludes:     gpuMemory, migProfile" in text
    assert text.endswith("FIELDS:\n  value  <number>\n")


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("training.gpu", "RESOURCE:    trainingworkload.spec.gpu <Object>"),
        ("training.gpu.value", "RESOURCE:    trainingworkload.spec.gpu.value <number>"),
        ("TrainingWorkload.spec.environment", "LABEL  <Object>\n      value  <string>\n      deleted  <boolean>\n"),
        ("TrainingWorkload.spec.ports.items", "container  <integer>  -required-\n          The port on which"),
        ("TrainingWorkload.spec.ports.container", "items.LABEL.value.container <integer>"),
        ("TrainingWorkload.spec.ports.items.web.container", "items.LABEL.value.container <integer>"),
        ("TrainingWorkload.spec.readinessProbe", "value  <Object>\n    path  <string>"),
        ("distributedworkload.masterSpec", "FIELDS (compute):"),
        ("distributedworkload.masterSpec.image", "RESOURCE:    distributedworkload.masterSpec.image <Object>"),
        ("distributedworkload.spec.jobType", "Words:        MPI, PyTorch, ColossalAI, TF, XGBoost or JAX"),
        ("distributedworkload.mpiJob", "value  <Object>\n    slotsPerWorker  <integer>"),
        ("trainingworkload.spec.name", "At most:      63 characters"),
        ("trainingworkload.spec.args", "trainingworkload.spec.arguments <Object>"),
        ("trainingworkload.spec.backoffLimit", "Default:      6"),
        ("trainingworkload.spec.capabilities", "Words:        AUDIT_CONTROL, AUDIT_READ"),
        ("trainingworkload.spec.ingressUrl", "Refused:      the address is given by the cluster"),
        ("trainingworkload.metadata.namespace", "runai-PROJECT"),
        ("workspace.notebookToken", "Secret:       stored encrypted"),
        ("colossalaijob", "VERSION:     batch.tensorstack.dev/v1beta1"),
        ("ColossalAIJob.spec.torchConfig", "script  <list of strings>  -required-"),
        (
            "colossalaijob.replicaSpecs.restartPolicy.limit",
            "RESOURCE:    colossalaijob.spec.replicaSpecs.restartPolicy",
        ),
    ],
)
def test_shapes(path: str, part: str) -> None:
    assert part in explain(path)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_lists_every_field_that_it_takes(kind: Kind) -> None:
    text = explain(kind.document)
    for row in catalogue().of_kind(kind):
        assert f"{row.yaml} " in text
        assert row.description in " ".join(explain(f"{kind.document}.{row.yaml}").split())
    assert "FIELDS (compute):" in explain(f"{kind.document}.spec")


@pytest.mark.parametrize("root", DOCUMENTS, ids=lambda root: str(root.name))
def test_every_key_is_explained_within_a_terminal(root: Node) -> None:
    pages: dict[str, str] = {}
    for path, node in keys(root, root.name):
        page = pages[path] = explain(path)
        assert f"RESOURCE:    {path[: len(root.name)].lower()}{path[len(root.name) :]} <{node.form}>" in page
        assert node.description in " ".join(page.split())
        # A path or a pattern is not broken, so that it can be copied.
        wide = [line for line in page.splitlines() if len(line) > 80]
        assert [line for line in wide if not line.startswith(("RESOURCE:", "  Pattern:"))] == []
    assert len(set(pages.values())) == len(pages)


def test_no_two_fields_are_described_alike_and_none_in_a_word() -> None:
    told: dict[str, str] = {}
    for root in DOCUMENTS:
        for path, node in keys(root, root.name):
            if node.row is None:
                continue
            assert len(node.description.split()) >= 4, path
            assert node.description[0].isupper(), path
            assert node.description.endswith("."), path
            # The same row may stand in several kinds; another row has to have words of its own.
            identity = f"{node.row.name} {node.row.number} {node.row.yaml}"
            assert told.setdefault(node.description, identity) == identity, path


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("", "nothing is not a kind"),
        ("traningworkload", "did you mean TrainingWorkload?"),
        ("xyz", "InteractiveWorkload, TrainingWorkload"),
        ("trainingworkload.spec.gpuu", "did you mean gpu?"),
        ("trainingworkload.spec.qqqqqq", "`muster explain trainingworkload` lists"),
        ("trainingworkload.spec.workers", "TrainingWorkload does not take workers; DistributedWorkload does"),
        ("inferenceworkload.spec.s3", "InferenceWorkload does not take s3; InteractiveWorkload, TrainingWorkload or"),
        ("trainingworkload.spec.ports.conainer", "did you mean container?"),
        ("trainingworkload.spec.ports.zzz", "ports has no member zzz; it has container, external"),
        ("trainingworkload.spec.gpu.zzz", "gpu has no member zzz; it has no members"),
        ("trainingworkload.spec.readinessProbe.zzz", "it has path, port, initialDelaySeconds"),
        ("colossalaijob.spec.torch", "did you mean torchConfig?"),
    ],
)
def test_what_is_not_there(path: str, hint: str) -> None:
    with pytest.raises(LookupError, match=r".") as caught:
        explain(path)
    assert hint in str(caught.value)


def test_the_catalogue_reads_what_the_options_say() -> None:
    row = catalogue().by_rest["compute.gpuPortionRequest"]
    assert (row.yaml, row.minimum, row.maximum, row.step) == ("gpu", 0.01, 1.0, 0.01)
    assert catalogue().by_yaml["args"] is catalogue().by_yaml["arguments"]
    assert catalogue().by_policy["numWorkers"][1].rules == {"canEdit", "required", "min", "max", "step"}
    assert catalogue().by_policy["numWorkers"][1].all_rules == {
        *("canEdit", "required", "min", "max", "step"),
        *("blocked", "defaultFrom"),
    }
    assert catalogue().by_policy["image"][1].all_rules == {"canEdit", "required", "options", "blocked"}
    assert all(each.description and each.kinds for each in catalogue().rows)
