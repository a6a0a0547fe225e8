"""Whatever a spec says that REST can say, a REST body says it the same; and no body at all makes the reader raise."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from muster.workload.v1 import workload_pb2 as wl
from muster_language import Kind, Row, WorkloadSpec, canonical, catalogue
from muster_language.rest.bodies import answer_body, read_body, write_body
from muster_language.spec import kind_of
from tests.support.sdk import judge
from tests.support.specs import specs

ENVELOPE: Final = {"projectId": "1", "clusterId": "c"}
# Said by several fields together, or in other pieces than in YAML: their laws are weaker, and stand below.
COMPOUND: Final = {
    "name",
    "name_prefix",
    "gpu_portion_request",
    "gpu_portion_limit",
    "gpu_devices_request",
    "gpu_memory_request",
    "gpu_memory_limit",
    "mig_profile",
    "gpu_request_type",
    "uid_gid_source",
    "run_as_uid",
    "run_as_gid",
    "pod_affinity_scheduling_rule",
    "pod_affinity_topology",
    "pod_anti_affinity_scheduling_rule",
    "pod_anti_affinity_topology",
    "ports",
    "volumes",
    "nfs",
    "master_spec",
}


def compound(row: Row) -> bool:
    return not row.rest or row.rest_kinds != row.kinds or row.name in COMPOUND


def body_of(spec: WorkloadSpec) -> dict[str, Any]:
    """A body as a client would send what was written."""
    name = {"name": spec.name_prefix, "useGivenNameAsPrefix": True} if spec.name_prefix else {"name": spec.name or "a"}
    sent: dict[str, Any] = json.loads(json.dumps(ENVELOPE | name | write_body(spec)))
    return sent


def sayable(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec without what REST has no word for: most tombstones, labels without a member, half of a claim."""
    spec.name = spec.name or "a"
    for row in catalogue().rows:
        if row.repeated:
            _only_sayable(row, getattr(spec, row.name))
    for claim in spec.pvcs:
        if not claim.HasField("size"):
            for name in ("storage_class", "read_write_once", "read_only_many", "read_write_many", "volume_mode"):
                claim.ClearField(name)
    for number, volume in enumerate(spec.data_volumes):
        volume.id = f"123e4567-e89b-12d3-a456-42661417400{number}"
    for number, resource in enumerate(spec.extended_resources):
        resource.resource = f"vendor.example/{number}"
    if spec.HasField("readiness_probe"):
        _ask_something(spec.readiness_probe)
    _agree_on_scale(spec)
    _drop_empty(spec, catalogue().rows)
    return spec


def _agree_on_scale(spec: WorkloadSpec) -> None:
    """Bounds and a metric that contradict each other are refused in every form."""
    if spec.HasField("min_scale") and spec.HasField("max_scale") and spec.min_scale > spec.max_scale:
        spec.min_scale = spec.max_scale
    if spec.HasField("min_scale") and not spec.min_scale:
        spec.ClearField("metric")


def _only_sayable(row: Row, items: Any) -> None:
    has_name = any(member.name == "label" and member.rest for member in row.inside)
    has_word = any(member.name == "deleted" and member.rest for member in row.inside)
    kept = [item for item in items if has_word or not item.deleted]
    del items[:]
    items.extend(kept)
    for item in items:
        item.label = item.label if has_name else ""
        if not item.deleted:
            item.ClearField("deleted")


def _ask_something(probe: wl.ReadinessProbe) -> None:
    """REST's probe always has a handler, and a host that could be one."""
    if probe.HasField("host"):
        probe.host = "example.com"
    if not {"path", "port", "host", "scheme"} & {field.name for field, _ in probe.ListFields()}:
        probe.path = "/"


def _drop_empty(message: Any, rows: tuple[Row, ...]) -> None:
    for row in rows:
        descriptor = message.DESCRIPTOR.fields_by_name[row.name]
        if row.rest_min_length and descriptor.has_presence and not descriptor.message_type:
            if message.HasField(row.name) and getattr(message, row.name) == "":
                message.ClearField(row.name)
        elif row.inside and descriptor.is_repeated:
            for item in getattr(message, row.name):
                _drop_empty(item, row.inside)


@given(specs(skip=compound))
def test_what_is_one_member_to_one_field_survives_rest(spec: WorkloadSpec) -> None:
    said = sayable(spec)
    body = read_body(kind_of(said) or Kind.TRAINING, body_of(said))
    assert [one for one in body.violations if "missing" not in one.text] == []
    assert canonical(body.spec) == canonical(said)
    assert body.warnings == ()


@given(specs())
def test_what_was_written_is_written_the_same_again(spec: WorkloadSpec) -> None:
    said = sayable(spec)
    once = read_body(kind_of(said) or Kind.TRAINING, body_of(said)).spec
    again = read_body(kind_of(said) or Kind.TRAINING, body_of(once)).spec
    assert again == once
    assert write_body(again) == write_body(once)


@given(specs())
def test_an_answer_has_only_words_that_the_api_knows(spec: WorkloadSpec) -> None:
    body = answer_body(spec)
    for row in catalogue().rows:
        above, _, last = row.rest.rpartition(".")
        members = body["spec"].get(above, {}) if above else body["spec"]
        if row.rest_words and last in members:
            assert members[last] in row.rest_words


@given(specs())
def test_an_answer_is_one_of_the_vendors_models(spec: WorkloadSpec) -> None:
    kind = kind_of(spec) or Kind.TRAINING
    envelope = {"name": "a", "requestedName": "a", "workloadId": "w", "createdBy": "ann", "desiredPhase": "Running"}
    moment = {"createdAt": "2026-01-01T00:00:00.000Z"}
    judge(f"get_{kind.word}", envelope | moment | ENVELOPE | answer_body(spec))


TREES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
NAMES: Final = sorted({name for row in catalogue().rows if row.rest for name in row.rest.split(".")})


@given(st.sampled_from(list(Kind)), st.dictionaries(st.sampled_from(NAMES) | st.text(), TREES), TREES)
def test_no_body_makes_the_reader_raise(kind: Kind, spec: dict[str, Any], tree: Any) -> None:
    for said in ({"spec": spec, "masterSpec": spec}, {"spec": tree, "name": tree, "projectId": tree}):
        assert read_body(kind, said).violations
