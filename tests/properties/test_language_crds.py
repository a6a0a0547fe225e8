"""What Muster writes, a Kubernetes API server with its definitions takes: every spec that nothing stands against."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import HealthCheck, assume, given, settings

from muster.workload.v1 import workload_pb2
from muster_language import Kind, WorkloadSpec, catalogue, check_effective, write
from muster_language.schemas.crds import definitions
from tests.support.schemas import refusals, schema_of
from tests.support.specs import specs

SCHEMAS = {made["spec"]["names"]["kind"]: schema_of(made) for made in definitions().values()}
# Lists that are one value have the type text in a schema; these hold what no text with commas can say.
LISTS = {
    row.name
    for row in catalogue().rows
    if row.name in {"node_pools", "image_pull_secrets", "clusters", "preferred_clusters"}
}


def texts_only(spec: Any) -> None:
    for name in LISTS:
        values = getattr(spec, name).values
        if spec.HasField(name) and not (values and all(each.isalnum() and each.isascii() for each in values)):
            spec.ClearField(name)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(specs(skip=lambda row: row.name in {"framework", "workers", "ports"}))
def test_what_is_written_is_taken(spec: WorkloadSpec) -> None:
    spec.command = "true"
    if spec.kind == Kind.DISTRIBUTED:
        spec.framework, spec.workers = workload_pb2.FRAMEWORK_PYTORCH, 4
    if spec.kind == Kind.INFERENCE:
        spec.ports.add(label="http", container=80)
    for each in (spec, spec.master_spec) if spec.HasField("master_spec") else (spec,):
        texts_only(each)
    assume(check_effective(spec) == [])
    document = yaml.safe_load(write(spec, namespace="runai-a"))
    assert refusals(SCHEMAS[document["kind"]], document) == []
