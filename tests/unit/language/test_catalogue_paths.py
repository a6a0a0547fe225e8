"""Where a field stands in YAML and where on REST is what the table of both says; a ColossalAIJob is as its table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from muster_language import Row, WorkloadSpec, catalogue, check_layer
from muster_language.catalogue import value_types
from muster_language.schemas.shape import Form, Node, colossal
from muster_language.spec import set_kind
from tests.support.tables import in_yaml, on_rest, table

PATHS = {(row["yaml_field"], row["yaml_member"]): row["rest_path"] for row in table("yaml_rest")}
# YAML member -> REST member where the table's braces do not pair them one to one.
PAIRS: Final = {
    ("pvcs", "readWriteOnce"): "claimInfo.accessModes.readWriteOnce",
    ("pvcs", "readOnlyMany"): "claimInfo.accessModes.readOnlyMany",
    ("pvcs", "readWriteMany"): "claimInfo.accessModes.readWriteMany",
    ("pvcs", "size"): "claimInfo.size",
    ("pvcs", "storageClass"): "claimInfo.storageClass",
    ("volumes", "nfsServer"): "",
}
# Said by several members together or by the call itself: the codec's own code, tested with it. The path of the row.
COMPOUND: Final = {
    ("name", ""): "name",
    ("namePrefix", ""): "useGivenNameAsPrefix",
    ("podAffinity", ""): "podAffinity",
    ("podAntiAffinity", ""): "podAntiAffinity",
    ("gpu", "0.01..1"): "compute.gpuPortionRequest",
    ("gpu", "whole > 1"): "compute.gpuPortionRequest",
    ("gpuMemory", ""): "compute.gpuMemoryRequest",
    ("migProfile", ""): "compute.migProfile",
    ("readinessProbe", ""): "probes.readiness",
    ("masterSpec", ""): "masterSpec",
    ("capabilities", "{capability}"): "security.capabilities",
}
# Words of the table that are no path below spec: the row has none on REST and says why.
ELSEWHERE: Final = {
    "active": "desired phase (suspend resume)",
    "serviceType": "spec.ports[].serviceType",
    "mountPropagation": "spec.storage.hostPath[].mountPropagation",
    "runAsUser": "spec.security.uidGidSource=fromIdpToken",
    "preemptible": "spec.priorityClass=interactive-preemptible",
    "username": "createdBy",
    "userId": "(identity)",
}


def rest_of(row: Row) -> str:
    return row.rest or next(iter(row.rest_also), "")


@pytest.mark.parametrize(("field", "member"), [place for place in PATHS if not place[0].startswith("(")])
def test_a_yaml_place_has_its_rest_place(field: str, member: str) -> None:
    path = PATHS[field, member]
    rows = in_yaml(field.partition(" ")[0])
    assert len(rows) == 1, field
    row = rows[0]
    if (field, member) in COMPOUND:
        assert rest_of(row) == COMPOUND[field, member]
    elif field.partition(" ")[0] in ELSEWHERE or path == "(none)":
        assert path == ELSEWHERE.get(field, "(none)")
        assert (rest_of(row), bool(row.only)) == ("", True)
    elif field == "ports (inference)":
        port = row.member("container")
        assert port is not None
        assert f"spec.{port.rest_also[0]}" == path
    elif member.startswith("{"):
        _members(row, field, re.findall(r"\w+", member), path)
    else:
        below = re.split(r"\.\{|\[\]| ", path.removeprefix("spec."))[0]
        assert row.rest == below


def _members(row: Row, field: str, words: list[str], path: str) -> None:
    listed = re.search(r"\{(.*)\}", path)
    there = re.findall(r"[\w.*]+", listed[1]) if listed else words
    for word in words:
        member = next((each for each in row.inside if word in {each.yaml, *each.aliases}), None)
        assert member is not None, f"{field} has no {word}"
        if (field, word) in PAIRS:
            assert member.rest == PAIRS[field, word]
        elif not member.sensitive and len(there) == len(words):
            assert member.rest in {there[words.index(word)], word}


def test_a_literal_credential_is_a_key_where_a_secret_is_named() -> None:
    keyed = {(row.yaml, each.yaml): each.keyed_by for row in catalogue().rows for each in row.members if each.keyed_by}
    assert keyed == {
        ("gitSync", "username"): "secret_key_of_user",
        ("gitSync", "password"): "secret_key_of_password",
        ("s3", "key"): "secret_key_of_access_key_id",
        ("s3", "secret"): "secret_key_of_secret_key",
    }
    for row in catalogue().rows:
        for each in row.members:
            assert bool(each.keyed_by) == each.sensitive
            assert not each.keyed_by or any(other.name == each.keyed_by and other.rest for other in row.members)


def test_an_item_is_known_by_its_label_or_by_the_member_that_is_its_key() -> None:
    itemized = [row for row in catalogue().rows if row.type == value_types.ITEMIZED]
    assert {row.yaml for row in itemized if not row.item_key} == {"emptyDirVolumes"}  # REST does not have them
    for row in itemized:
        members = {member.name: member for member in row.inside}
        key = members["label"] if members["label"].rest or not row.item_key else members[row.item_key]
        assert key.rest == row.item_key
    assert {row.yaml for row in catalogue().rows if row.item_key} <= {row.yaml for row in itemized}


def test_what_waits_for_policy_is_mandatory_and_a_policy_can_give_it() -> None:
    waiting = [row for row in catalogue().rows if row.deferrable]
    assert waiting == [row for row in catalogue().rows if row.mandatory]
    for row in waiting:
        assert any(path.defaultable for path in row.policy)
        spec = WorkloadSpec(name="one")
        set_kind(spec, min(row.kinds))
        assert not check_layer(spec)


def test_what_only_rest_has_can_be_written_in_yaml_too() -> None:
    for (field, _), path in PATHS.items():
        if field == "(none)":
            bare = re.split(r"\[\]", path.removeprefix("spec."))[0]
            row = catalogue().by_rest[bare]
            assert row.yaml
            assert "REST only" in row.note
    assert all(place.field.yaml for place in on_rest().values())


COLOSSAL = {row["field"]: row for row in table("colossal_fields")}
FORMS: Final = {
    "string": {Form.STRING, Form.ENUM},
    "object": {Form.OBJECT},
    "boolean": {Form.BOOLEAN},
    "array": {Form.LIST},
    "array of strings": {Form.STRINGS},
    "integer >= 0": {Form.INTEGER},
    "integer >= 1": {Form.INTEGER},
    "object or string": {Form.OBJECT},
    "PodTemplateSpec": {Form.TEMPLATE},
    "ObjectMeta": {Form.OBJECT},
    "Always|OnFailure|Never": {Form.ENUM},
}
DEFAULTS: Final = {
    "spec.torchConfig.extraArgs": "an empty list is what absence means",
    "spec.scheduler": "the same in other words",
    "spec.replicaSpecs[].restartPolicy": "the default is that of its members",
}


def jobs(node: Node, place: str) -> Iterator[tuple[str, Node]]:
    for each in node.children:
        path = f"{place}{each.name}"
        yield path, each
        yield from jobs(each, f"{path}{'[]' if each.form is Form.LIST else ''}.")


@pytest.mark.parametrize("name", [name for name in COLOSSAL if not name.startswith("status")])
def test_a_colossal_field_is_as_its_row_says(name: str) -> None:
    said, node = COLOSSAL[name], dict(jobs(colossal(), ""))[name]
    assert node.form in FORMS[said["type"]]
    if node.row is None:
        return
    assert node.required == said["mandatory"].startswith("Y")
    if said["default"] and name not in DEFAULTS:
        assert said["default"].casefold().startswith(node.row.unset.casefold().partition(" ")[0][:5])
        assert node.row.unset
    if said["type"].startswith("integer"):
        assert (node.row.minimum or 0) == int(said["type"][-1])
    if node.row.words is not None and "|" in said["type"]:
        assert list(node.row.words.by_number.values()) == said["type"].split("|")


def test_every_colossal_field_is_in_the_table_or_inside_one_that_it_sums_up() -> None:
    summed = ("spec.runMode.", "spec.scheduler.", "metadata.")
    known = {path for path, _ in jobs(colossal(), "")}
    alone = {path for path in known if not path.startswith(summed) and path not in COLOSSAL}
    assert {path for path in alone if not any(field.startswith(f"{path}.") for field in COLOSSAL)} == set()
