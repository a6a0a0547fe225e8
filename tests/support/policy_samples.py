"""Values for every place that a policy can speak about, and submissions that have them and are otherwise complete.

Read by the sweep over the cells of the policy table and by the tests of the engine. The two values of a place are both
legal, so that only a policy can have anything against one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_language import Kind, Row, WorkloadSpec
from muster_language.catalogue import value_types as of
from muster_language.labels import members_of
from muster_language.spec import set_kind
from muster_policy_engine.amounts import Unit, unit_of
from muster_policy_engine.documents.defaults import label_word
from muster_policy_engine.places import Place, Side

LABEL: Final = "x"
ADDRESS: Final = "https://example.org/a"


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of a place as documents write them. low, high: legal; high is more. odd: no multiple of low from 0."""

    low: str
    high: str
    odd: str = ""


_BY_UNIT: Final = {
    Unit.NUMBER: Sample("2", "4", "3"),
    Unit.CORES: Sample("2", "4", "3"),
    Unit.BYTES: Sample("2Gi", "4Gi"),
}
_BY_NAME: Final = {
    "gpu_portion_request": Sample("0.5", "1.0", "0.75"),
    "gpu_portion_limit": Sample("0.5", "1.0", "0.75"),
    "working_dir": Sample("/a", "/b"),
    "mig_profile": Sample("1g.10gb", "2g.20gb"),
    "priority_class": Sample("high", "low"),
    "supplemental_groups": Sample("1", "2"),
    "capabilities": Sample("SYS_TIME", "NET_ADMIN"),
    "framework": Sample("PyTorch", "XGBoost"),
    "quantity": Sample("1", "2"),
    "mount_path": Sample("/mnt/a", "/mnt/b"),
    "path": Sample("/mnt/a", "/mnt/b"),
    "url": Sample(ADDRESS, "https://example.org/b"),
    "repository": Sample("https://example.org/a.git", "https://example.org/b.git"),
    "id": Sample("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"),
    "label": Sample("run", "board"),
}


def sample(place: Place) -> Sample:
    """The values of a place."""
    row = place.value
    if row.name in _BY_NAME:
        return _BY_NAME[row.name]
    unit = unit_of(row)
    if unit is not None:
        return _BY_UNIT[unit]
    if row.type == of.BOOLEAN:
        return Sample("true", "false")
    if row.words is not None:
        low, high, *_ = row.words.by_number.values()
        return Sample(low, high)
    return Sample("a", "b")


_ITEMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "environment": {"value": "v"},
    "labels": {"value": "v"},
    "annotations": {"value": "v"},
    "ports": {"container": 80},
    "exposed_urls": {"container": 80},
    "related_urls": {"url": ADDRESS, "type": "wandb"},
    "extended_resources": {"resource": "example.org/card", "quantity": "3"},
    "tolerations": {"operator": 2, "key": "k", "effect": 1},
    "pvcs": {"size": "1Gi", "path": "/mnt/x"},
    "git_sync": {"repository": "https://example.org/x.git", "path": "/mnt/x"},
    "s3": {"bucket": "b", "path": "/mnt/x"},
    "nfs": {"path": "/x", "server": "s", "mount_path": "/mnt/x"},
    "volumes": {"path": "/x", "mount_path": "/mnt/x"},
    "config_map_volumes": {"config_map": "c", "mount_path": "/mnt/x"},
    "secret_volumes": {"secret": "s", "mount_path": "/mnt/x"},
    "data_volumes": {"id": "00000000-0000-4000-8000-000000000000", "mount_path": "/mnt/x"},
}
"""A complete item of each field, by its proto name."""
_CHANGED: Final[Mapping[str, tuple[str, Any]]] = {
    "environment": ("value", "w"),
    "labels": ("value", "w"),
    "annotations": ("value", "w"),
    "ports": ("container", 81),
    "exposed_urls": ("container", 81),
    "related_urls": ("type", "mlflow"),
    "extended_resources": ("quantity", "4"),
    "tolerations": ("key", "l"),
}
"""A member of an item and another value for it; of volumes it is where they are mounted."""


def item(row: Row, *, changed: bool = False) -> dict[str, Any]:
    """The members of a complete item by their proto names."""
    members = dict(_ITEMS[row.name])
    if changed:
        mount = "mount_path" if "mount_path" in members else "path"
        name, value = _CHANGED.get(row.name, (mount, "/mnt/y"))
        members[name] = value
    return members


def item_document(row: Row, label: str = LABEL) -> dict[str, Any]:
    """The same item as a default instance of a document, under REST names."""
    by_name = {member.name: member for member in members_of(row)}
    said = {by_name[name].rest: _text(by_name[name], value) for name, value in item(row).items()}
    if row.name == "extended_resources":
        return said  # its resource is its label
    return {label_word(row): label, **said}


def item_label(row: Row) -> str:
    """The label that the item goes by."""
    return str(_ITEMS[row.name]["resource"]) if row.name == "extended_resources" else LABEL


def _text(row: Row, value: Any) -> Any:
    return row.words.by_number[value] if row.words is not None else str(value)


def typed(row: Row, text: str) -> Any:
    """A sample's text as a spec has it."""
    if row.words is not None:
        return row.words.by_word[text.casefold()]
    match row.type:
        case of.BOOLEAN:
            return text == "true"
        case of.INTEGER:
            return int(text)
        case of.NUMBER:
            return float(text)
        case of.ARRAY:
            return [text]
        case _:
            return text


def workload(kind: Kind, place: Place | None = None) -> WorkloadSpec:
    """A workload of the kind that lacks nothing, with what else the place needs beside it."""
    spec: Any = WorkloadSpec(command="true")
    set_kind(spec, kind)
    if kind is Kind.DISTRIBUTED:
        spec.framework, spec.workers = 2, 2
        spec.master_spec.SetInParent()
    if kind is Kind.INFERENCE:
        spec.ports.add(label="http", container=80)
    if place is not None:
        for name, value in _BESIDE.get(place.row.name, {}).items():
            target = place.target(spec) if place.row.for_roles else spec
            setattr(target, name, value)
    made: WorkloadSpec = spec
    return made


_SCALING: Final = {"metric": 1, "target": 5}
_BESIDE: Final[Mapping[str, Mapping[str, Any]]] = {
    "gpu_portion_limit": {"gpu_portion_request": 0.1},
    "gpu_memory_limit": {"gpu_memory_request": "1Gi"},
    "parallelism": {"completions": 10},
    "run_as_uid": {"uid_gid_source": 3},
    "run_as_gid": {"uid_gid_source": 3},
    "pod_affinity_scheduling_rule": {"pod_affinity": True, "pod_affinity_topology": "zone"},
    "pod_affinity_topology": {"pod_affinity": True, "pod_affinity_scheduling_rule": 1},
    "min_replicas": {"workers": 4},
    "min_scale": {**_SCALING, "max_scale": 8},
    "max_scale": {**_SCALING, "min_scale": 1},
    "metric": {"target": 5, "min_scale": 1, "max_scale": 4},
    "target": {"metric": 1, "min_scale": 1, "max_scale": 4},
    "scale_to_zero_retention_seconds": {**_SCALING, "min_scale": 0, "max_scale": 2},
}
"""What a field is legal with, by its proto name."""
_REQUESTS: Final[Mapping[str, Callable[[Any], None]]] = {
    "portion": lambda role: setattr(role, "gpu_portion_request", 0.5),
    "memory": lambda role: setattr(role, "gpu_memory_request", "1Gi"),
}
"""What each type of GPU request goes with."""


def say(spec: WorkloadSpec, place: Place, text: str | None) -> WorkloadSpec:
    """The spec with the value of a sample at the place; None: it says nothing there, but has the item around it."""
    target: Any = place.target(spec)
    row = place.value
    if text is None and place.side is Side.MASTER and not place.itemized:
        spec.ClearField(place.row.name)  # type: ignore[arg-type]  # the master would have it from the workers
    if place.itemized:
        target = _item(place, target)
        if row.name == "label":
            target.label = text or ""
            return spec
    elif place.member is not None:
        target = getattr(target, place.row.name)
    if text is None:
        target.ClearField(row.name)
    elif row.type == of.ARRAY:
        getattr(target, row.name).values[:] = typed(row, text)
    else:
        setattr(target, row.name, typed(row, text))
    if row.name == "gpu_request_type" and text is not None:
        _REQUESTS[text](place.target(spec))
    return spec


def _item(place: Place, role: Any) -> Any:
    items = getattr(role, place.row.name)
    if place.first_only:
        return items[0]
    del items[:]
    return items.add(label=item_label(place.row), **item(place.row))


def path_of(place: Place, label: str = "") -> str:
    """Where an issue about the place is said to be. label: of the item, for a member."""
    row = place.row
    front = "masterSpec." if place.side is Side.MASTER else ""
    if place.member is None:
        return f"{front}{row.path}"
    inside = f"{label}." if place.itemized else ""
    return f"{front}{row.path}.{inside}{place.member.path}"
