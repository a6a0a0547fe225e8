"""The schemas of REST bodies: made from the catalogue, they take what the reader takes and refuse what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from muster_language import Kind, WorkloadSpec
from muster_language.rest.bodies import answer_body, read_body
from muster_language.rest.openapi import spec_schema
from muster_language.spec import kind_of
from tests.support.specs import specs

EXAMPLE = json.loads((Path(__file__).parents[2] / "data" / "rest" / "training.json").read_text())
ENVELOPE = {"name": "a", "projectId": "1", "clusterId": "c"}


def fits(kind: Kind, spec: dict[str, Any]) -> bool:
    return jsonschema_rs.validator_for(spec_schema(kind)).is_valid(spec)


@pytest.mark.parametrize("kind", list(Kind))
def test_each_schema_is_one(kind: Kind) -> None:
    assert jsonschema_rs.meta.is_valid(spec_schema(kind) | {"$schema": "https://json-schema.org/draft/2020-12/schema"})
    assert spec_schema(kind)["properties"]["image"]["description"]


def test_the_example_of_the_reference_fits() -> None:
    assert fits(Kind.TRAINING, EXAMPLE["spec"])


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (Kind.TRAINING, {"imagee": "x"}),
        (Kind.TRAINING, {"image": ""}),
        (Kind.TRAINING, {"backoffLimit": -1}),
        (Kind.TRAINING, {"backoffLimit": 1 << 33}),
        (Kind.TRAINING, {"imagePullPolicy": "Sometimes"}),
        (Kind.TRAINING, {"compute": {"cpuMemoryRequest": "-1"}}),
        (Kind.TRAINING, {"compute": {"cpuMemoryRequest": "1e4"}}),
        (Kind.TRAINING, {"compute": {"cpuCoreRequest": 0}}),
        (Kind.TRAINING, {"podAffinity": {"key": "zone"}}),
        (Kind.TRAINING, {"podAffinity": {"key": "zone", "type": "harder"}}),
        (Kind.TRAINING, {"probes": {"readiness": {}}}),
        (Kind.TRAINING, {"storage": {"pvc": [{"path": "/a", "claimInfo": {}}]}}),
        (Kind.TRAINING, {"environmentVariables": [{"name": "A", "secret": {"name": "s"}}]}),
        (Kind.TRAINING, {"ports": [{"container": 70000, "serviceType": "ClusterIP"}]}),
        (Kind.TRAINING, {"security": {"capabilities": ["FLY"]}}),
        (Kind.TRAINING, {"numWorkers": 2}),
        (Kind.INFERENCE, {"tty": True}),
        (Kind.INFERENCE, {"servingPort": {"protocol": "http"}}),
    ],
)
def test_what_does_not_fit_is_refused_by_the_reader_too(kind: Kind, spec: dict[str, Any]) -> None:
    assert not fits(kind, spec)
    assert read_body(kind, ENVELOPE | {"spec": spec}).violations


def test_an_item_that_only_takes_another_out_needs_its_key_alone() -> None:
    spec = {"compute": {"extendedResources": [{"resource": "vendor.example/foo", "exclude": True}]}}
    assert fits(Kind.TRAINING, spec)
    assert read_body(Kind.TRAINING, ENVELOPE | {"spec": {"image": "x"} | spec}).violations == ()


def test_a_master_takes_what_each_role_may_say() -> None:
    schema = spec_schema(Kind.DISTRIBUTED, master=True)
    assert "image" in schema["properties"]
    assert "numWorkers" not in schema["properties"]


@given(specs())
def test_every_answer_fits(spec: WorkloadSpec) -> None:
    schema = spec_schema(kind_of(spec) or Kind.TRAINING, answer=True)
    errors = jsonschema_rs.validator_for(schema).iter_errors(answer_body(spec)["spec"])
    assert [str(error) for error in errors] == []
