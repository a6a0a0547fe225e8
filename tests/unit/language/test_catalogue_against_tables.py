"""The catalogue holds what the tables hold: nothing is missing, nothing contradicts, and what differs has a reason.

Each difference stands in one of the dictionaries below with its reason; a test fails where one of them is no longer
needed, so that they only ever say what is true.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from muster_kernel.mig import CARDS
from muster_language import Row, catalogue
from muster_language.catalogue import value_types as of
from tests.support.tables import COLUMNS, Place, in_policies, in_yaml, kinds_of, on_rest, table

FIELDS = {row["field"]: row for row in table("fields")}
REST = {row["field"]: row for row in table("rest_fields")}
POLICIES = {row["field"]: row for row in table("policy_rules")}

YAML_TYPES: Final = {
    "Boolean": {of.BOOLEAN},
    "Integer": {of.INTEGER},
    "Itemized": {of.ITEMIZED},
    "Map/Itemized": {of.ITEMIZED},
    "Number": {of.NUMBER, of.QUANTITY},
    "Object (integer)": {of.INTEGER},
    "Object (string)": {of.STRING},
    "Quantity": {of.QUANTITY},
    "String": {of.STRING},
    "String (001) / list": {of.ARRAY},
    "String (001) / object (REST)": {of.OBJECT},
    "String/Itemized": {of.ARRAY},
    "object, sibling of spec": {of.OBJECT},
    "string (unwrapped)": {of.STRING},
    'Number (quoted string; "100m" accepted)': {of.QUANTITY},
    "Number (quoted string)": {of.NUMBER},
}
REST_TYPES: Final = {
    "boolean": {of.BOOLEAN},
    "integer": {of.INTEGER},
    "integer:int32": {of.INTEGER},
    "integer:int64": {of.INTEGER},
    "number:double": {of.NUMBER, of.QUANTITY},
    "string": {of.STRING, of.QUANTITY},
    "string (a JSON number is accepted)": {of.STRING},
    "string:hostname": {of.STRING},
    "string:uuid": {of.STRING},
    "array<string>": {of.ARRAY},
    "array<object>": {of.ITEMIZED},
    "object": {of.OBJECT},
}
TYPES: Final = {
    "capabilities": "labelled items in YAML, but one value to policies and on REST: a list whose labels are not kept",
    "ingressUrl": "an object of unknown form that is refused in any form",
    "nodePool": "the older name of nodePools, of which it holds one",
    "mpiJob": "an object of unknown form: its members are read as the fields they mean",
    "pyTorchJob": "as mpiJob",
    "runPolicy": "as mpiJob",
}
DEFAULTS: Final = {
    "createHomeDir": "two sources: it follows runAsUser",
    "exposedUrls": "the default is that of a member, url",
    "gpu": "none is what absence means anyway",
    "imagePullPolicy": "two sources: the tag decides",
    "autoDeletionTimeAfterCompletionSeconds": "two sources: 30 days",
    "nodePools": "the project's list",
    "ports": "the default is that of a member, external",
    "runAsNonRoot": "two sources: unset",
    "s3": "the default is that of a member, url",
    "volumes": "the default is that of a member, readOnly",
    "minScale": "depends on the metric and on the channel",
}
MANDATORY: Final = {"runAsNonRoot": "one source only, and plain images could not start"}
ENVELOPE: Final = {
    "projectId": "says where the workload goes, not what it is: the call has it",
    "clusterId": "as projectId",
    "spec": "what the other rows are in",
}
REST_MANDATORY: Final = {
    "name": "exactly one of name and namePrefix: a rule over two fields",
    "spec.podAffinity.type": "only where podAffinity is there: the codec asks for it",
    "spec.podAffinity.key": "as type",
    "spec.environmentVariables[].secret.name": "only where secret is there: the codec asks for it",
    "spec.environmentVariables[].secret.key": "as name",
    "spec.probes.readiness.handler": "a probe without one asks by TCP in YAML; the codec wants it",
    "spec.ports[].serviceType": "YAML may say it once for all ports; the codec wants it on each",
    "spec.storage.pvc[].claimInfo.size": "only where claimInfo is there: a rule over two members",
    "spec.distributedFramework": "checked once policy had its say",
}
WIDER_WORDS: Final = {
    "spec.distributedFramework": "JAX came later, ColossalAI is another vendor's",
    "spec.priorityClass": "Muster has more classes",
    "spec.compute.migProfile": "newer devices have further profiles",
}
OUR_MEMBERS: Final = {
    ("git_sync", "branch"): "REST has it",
    ("git_sync", "password"): "a literal beside the literal username",
    ("ports", "protocol"): "REST has it on servingPort",
    ("volumes", "nfs_server"): "the older way to say nfs",
}
OUR_FIELDS: Final = {
    "topology_required": "other schedulers take it as an annotation",
    "pod_anti_affinity": "Kubernetes takes it in the specs of pods",
    "pod_anti_affinity_scheduling_rule": "as pod_anti_affinity",
    "pod_anti_affinity_topology": "as pod_anti_affinity",
    "topology_preferred": "as required",
    "topology_group": "as required",
    "topology_group_size": "as required",
    "clusters": "elsewhere a workload names one cluster, by clusterId",
    "preferred_clusters": "as clusters",
    "data_label": "as clusters",
}
OUR_POLICIES: Final = {
    "worker.topology.required": "a field of ours",
    "podAntiAffinity.type": "a field of ours",
    "podAntiAffinity.key": "a field of ours",
    "worker.podAntiAffinity.type": "a field of ours",
    "worker.podAntiAffinity.key": "a field of ours",
    "worker.topology.preferred": "a field of ours",
    "worker.topology.group": "a field of ours",
    "worker.topology.groupSize": "a field of ours",
    "clusters": "a field of ours",
    "preferredClusters": "a field of ours",
    "dataLabel": "a field of ours",
    "worker.clusters": "a field of ours",
    "worker.preferredClusters": "a field of ours",
    "worker.dataLabel": "a field of ours",
    "preemptible": "a field of ours on REST's priorityClass: it must be ruled where it is said",
    "worker.priorityClass": "our gangs have a class",
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_yaml_field_is_as_its_row_says(name: str) -> None:
    said = FIELDS[name]
    rows = in_yaml(name)
    assert rows, f"{name} is not in the catalogue"
    kinds = frozenset(kind for column, kind in COLUMNS.items() if said[column] == "Y")
    for row in rows:
        if len(rows) == 1 and row.yaml in {name, "arguments"}:
            assert row.kinds == kinds
        assert kinds <= row.kinds
        if name not in TYPES:
            assert row.type in YAML_TYPES[said["value_type"]]
        assert row.bare == said["value_type"].endswith("(unwrapped)")
        assert row.beside_spec == said["value_type"].endswith("sibling of spec")
        if name not in MANDATORY:
            assert row.mandatory == said["mandatory"].startswith("Yes")


@pytest.mark.parametrize("name", [name for name, row in FIELDS.items() if row["default"]])
def test_a_yaml_default_is_the_tables(name: str) -> None:
    (row,) = in_yaml(name)
    if name in DEFAULTS:
        assert row.note or row.default or row.unset or row.members or row.type == of.NUMBER
        return
    assert _first(row.default or row.unset) == _first(FIELDS[name]["default"])


def _first(text: str) -> str:
    return re.split(r"[\s,;(]", text.casefold(), maxsplit=1)[0]


OPEN: Final = (
    "active",
    "allowPrivilegeEscalation",
    "args",
    "autoDeletionTimeAfterCompletionSeconds",
    "capabilities",
    "createHomeDir",
    "dropAllCapabilities",
    "gpuLimit",
    "hostIpc",
    "hostNetwork",
    "imagePullPolicy",
    "mountPropagation",
    "nodePools",
    "preemptible",
    "processes",
    "runAsNonRoot",
    "s3",
    "seccompProfileType",
    "slotsPerWorker",
    "stdin",
    "supplementalGroups",
    "terminateAfterPreemption",
    "tty",
    "volumes",
    "runAsUid",
    "runAsGid",
    "readinessProbe",
    "minScale",
    "preemptionLimit",
)


def test_what_the_sources_leave_open_or_contradict_is_decided_in_the_option() -> None:
    undecided = [name for name in OPEN if not any(row.note for row in in_yaml(name))]
    assert undecided == ["allowPrivilegeEscalation"]  # its sources agree; it stands here as the test's own control
    members = {(row.yaml, member.yaml): member.note for row in catalogue().rows for member in row.members}
    for place in (("tolerations", "value"), ("tolerations", "seconds"), ("volumes", "readOnly"), ("nfs", "targetPath")):
        assert members[place], place


def _object(path: str) -> bool:
    """Whether rows stand below the path: REST nests what the catalogue says by one path."""
    return any(each.startswith(f"{path}.") for each in PLACES)


PLACES = on_rest()


@pytest.mark.parametrize("name", [name for name in REST if name not in ENVELOPE])
def test_a_rest_member_is_as_its_row_says(name: str) -> None:
    said = REST[name]
    path = re.sub(r"^masterSpec\.", "spec.", name)
    place = PLACES.get(path)
    if place is None:
        assert said["type"] == "object", f"{name} is not in the catalogue"
        assert _object(path)
        return
    row = place.row
    if name != path:
        assert place.field.for_roles
    compound = any(path.endswith(each) for each in row.rest_also)
    kinds = kinds_of(said["kinds"])
    assert kinds <= place.field.rest_kinds
    if name == path and not compound:
        assert kinds == place.field.rest_kinds
        assert row.type in REST_TYPES[said["type"]]
        assert str(row.rest_min_length or "") == said["minLength"]
    if path not in REST_MANDATORY and row is not place.field:
        assert row.mandatory == (said["mandatory"] == "Y")
    _bounds(said, place, path, compound=compound)


def _bounds(said: dict[str, str], place: Place, path: str, *, compound: bool) -> None:
    row = place.row
    if said["minimum"]:
        assert row.minimum == float(said["minimum"])
    if said["maximum"]:
        assert row.maximum == float(said["maximum"])
    if said["default"] and not compound:
        assert _first(row.default or row.unset) == said["default"].casefold()
    if said["pattern"]:
        assert row.type == of.QUANTITY
    if ":" in said["type"] and said["type"].startswith("string"):
        assert row.rest_format == said["type"].partition(":")[2]
    if said["enum"]:
        _words(row, path, said["enum"].split("|"))


def _words(row: Row, path: str, words: list[str]) -> None:
    if row.words is not None:
        assert {word.casefold() for word in words} <= set(row.words.by_word)
        meant = {row.words.by_word[word.casefold()] for word in words}
        assert (meant == set(row.words.by_number)) is (path not in WIDER_WORDS)
    elif row.one_of:
        assert list(row.one_of.values()) == words
    else:
        assert path in WIDER_WORDS
        assert all(re.fullmatch(row.pattern, word) for word in words)
    if path in WIDER_WORDS:
        assert list(row.rest_words) == words


def test_every_row_is_in_a_table() -> None:
    said = {row.name for name in FIELDS for row in in_yaml(name)}
    said |= {PLACES[path].field.name for path in REST if path in PLACES}
    assert {row.name for row in catalogue().rows} - said == set(OUR_FIELDS)
    assert all(row.only or row.rest or row.rest_also for row in catalogue().rows), "neither on REST nor a reason why"


def test_every_member_is_in_a_table_or_has_its_reason() -> None:
    on_tables = {(PLACES[path].field.name, PLACES[path].row.name) for path in REST if path in PLACES}
    for row in table("yaml_rest"):
        words = set(re.findall(r"\w+", row["yaml_member"]))
        for field in in_yaml(row["yaml_field"]):
            on_tables |= {(field.name, each.name) for each in field.members if {each.yaml, *each.aliases} & words}
    members = {(row.name, each.name) for row in catalogue().rows for each in row.members}
    assert members - on_tables <= set(OUR_MEMBERS)
    assert all(member.only or member.rest or member.rest_also for row in catalogue().rows for member in row.members)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_path_takes_the_rules_of_its_row(name: str) -> None:
    rules, kinds = in_policies()[name]
    assert rules == set(POLICIES[name]["rule_types"].split("|"))
    wanted = kinds_of(POLICIES[name]["kinds(W,T,D,F)"])
    assert wanted <= kinds
    if name != "priorityClass":  # wider by our own class of inference services
        assert wanted == kinds


def test_no_policy_path_is_made_up() -> None:
    assert set(in_policies()) - set(POLICIES) == set(OUR_POLICIES)


def test_the_mig_profiles_are_those_that_gpus_have() -> None:
    known = {name for card in CARDS.values() for name in card.profiles}
    row = catalogue().by_name["mig_profile"]
    made = {f"{slices}g.{size}gb{media}" for slices in range(10) for size in range(300) for media in ("", "+me")}
    assert {name for name in made if re.fullmatch(row.pattern, name)} == known
    for slices in "12347":
        sizes = sorted({int(name[3:-2]) for name in known if name.startswith(slices) and name.endswith("gb")})
        assert f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]}" in row.allowed
