"""`explain` says what the catalogue says, and helps where it is asked for something that is not there."""

from __future__ import annotations

import pytest

from muster_language import Kind, catalogue, explain


def test_a_field() -> None:
    text = explain("trainingworkload.spec.gpu")
    assert text.startswith(
        "KIND:        TrainingWorkload\nVERSION:     run.ai/v2alpha1\nRESOURCE:    trainingworkload.spec.gpu"
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
        ("training.gpu", "RESOURCE:    trainingworkload.spec.gpu <number>"),
        ("TrainingWorkload.spec.environment", "LABEL\n      value  <string>"),
        ("TrainingWorkload.spec.ports.items", "container  <integer>"),
        ("TrainingWorkload.spec.ports.container", "The port on which the process inside"),
        ("TrainingWorkload.spec.readinessProbe", "value  <object>\n    path  <string>"),
        ("distributedworkload.masterSpec", "the same fields as spec"),
        ("distributedworkload.spec.jobType", "(bare)  <enum>"),
        ("trainingworkload.spec.name", "At most:      63 characters"),
        ("trainingworkload.spec.backoffLimit", "Default:      6"),
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


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_is_wider_than_a_terminal(kind: Kind) -> None:
    paths = [kind.document, *(f"{kind.document}.{row.yaml}" for row in catalogue().of_kind(kind))]
    wide = [line for path in paths for line in explain(path).splitlines() if len(line) > 80]
    # A path or a pattern is not broken, so that it can be copied.
    assert [line for line in wide if not line.startswith(("RESOURCE:", "  Pattern:"))] == []


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("", "nothing is not a kind"),
        ("traningworkload", "did you mean TrainingWorkload?"),
        ("xyz", "InteractiveWorkload, TrainingWorkload"),
        ("trainingworkload.spec.gpuu", "did you mean gpu?"),
        ("trainingworkload.spec.qqqqqq", "`muster explain trainingworkload` lists"),
        ("trainingworkload.spec.workers", "a TrainingWorkload does not take workers; DistributedWorkload does"),
        ("trainingworkload.spec.ports.conainer", "did you mean container?"),
        ("trainingworkload.spec.ports.zzz", "it has container or external"),
        ("trainingworkload.spec.gpu.zzz", "it has no members"),
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
    assert all(each.description and each.kinds for each in catalogue().rows)
