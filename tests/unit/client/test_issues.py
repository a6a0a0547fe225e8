"""What policy refuses is shown where the document has it, under the name that YAML has for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_client.cli.documents import read_files
from muster_client.cli.issues import in_document

TEXT = """\
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {name: first, namespace: runai-a}
spec: {image: {value: x}}
---
apiVersion: run.ai/v2alpha1
kind: DistributedWorkload
metadata: {name: second, namespace: runai-a}
spec:
  image: {value: x}
  gpu: {value: "8"}
  numWorkers: {value: 3}
  environment:
    items:
      MODE: {value: fast}
masterSpec:
  image: {value: y}
"""


@pytest.mark.parametrize(
    ("issue", "place"),
    [
        ("compute.gpuDevicesRequest: 8 is above 4", "11:3: spec.gpu: 8 is above 4"),
        ("worker.compute.gpuDevicesRequest: no", "11:3: spec.gpu: no"),
        ("numWorkers: 3 is too many", "12:3: spec.numWorkers: 3 is too many"),
        ("environmentVariables.MODE: locked", "15:7: spec.environment.items.MODE: locked"),
        ("environmentVariables: at most none", "13:3: spec.environment: at most none"),
        ("master.image: not of ours", "17:3: masterSpec.image: not of ours"),
        ("masterSpec.image: not of ours", "17:3: masterSpec.image: not of ours"),
        (
            "environmentVariables.MODE.value: fast is not allowed",
            "15:21: spec.environment.items.MODE.value: fast is not allowed",
        ),
        ("compute.cpuCoreRequest: a value is needed", "5:1: spec.cpu: a value is needed"),
    ],
)
def test_an_issue_is_shown_at_its_line(tmp_path: Path, issue: str, place: str) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(TEXT)
    _, second = read_files([path])
    assert in_document(second, [issue]) == [f"{path}:{place}"]


def test_what_is_about_no_field_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(TEXT)
    first, _ = read_files([path])
    told = ["the policy could not be read", "some.thing: is wrong"]
    assert in_document(first, told) == told
