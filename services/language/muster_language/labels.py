"""The label of an item: what layers merge it by; and where an item appears in the container.

Called by merge, validation and the writers.
Holds: a label that is missing comes from the item itself, never from its place in the list: two layers agree on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from muster_language.catalogue import Row, catalogue
from muster_language.spec import WorkloadSpec

_SIGNS: Final = frozenset({"label", "deleted"})  # of the item as an item, not of what it says
_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PersistentVolumeClaim": "pvc",
        "GitRepository": "git",
        "S3Bucket": "s3",
        "NfsVolume": "nfs",
        "HostPath": "hostpath",
        "ConfigMapVolume": "configmap",
        "SecretVolume": "secret",
        "EmptyDirVolume": "emptydir",
    }
)
_NUMBERS: Final[Mapping[str, str]] = MappingProxyType({"Port": "p", "ExposedUrl": "u"})


@cache
def members_of(row: Row) -> tuple[Row, ...]:
    """Every field of an item or object of the row, whether YAML writes it or not, but its label and its tombstone."""
    return tuple(member for member in row.inside if member.name not in _SIGNS)


def label_of(item: Any) -> str:
    """The item's own label, else the one that its content gives, else empty."""
    return str(item.label) if item.label else _derived(item)


def _derived(item: Any) -> str:
    kind = item.DESCRIPTOR.name
    if kind in _NUMBERS:
        return f"{_NUMBERS[kind]}-{item.container}" if item.HasField("container") else ""
    if kind in _keys():
        return str(getattr(item, _keys()[kind]))
    if kind == "RelatedUrl":
        return f"r-{_digest(item.url)}" if item.url else ""
    if kind in _PREFIXES and mount_of(item):
        return f"{_PREFIXES[kind]}-{_digest(mount_of(item))}"
    return ""


@cache
def _keys() -> Mapping[str, str]:
    """The member that names an item where it has no label of its own, by the item's message: a resource, an id."""
    messages = {field.name: field.message_type for field in WorkloadSpec.DESCRIPTOR.fields}
    keyed = [row for row in catalogue().rows if row.item_key in {member.name for member in members_of(row)}]
    return {item.name: row.item_key for row in keyed if (item := messages[row.name]) is not None}


def mount_of(item: Any) -> str:
    """Where a volume or checkout appears inside the container; empty for an item that appears nowhere."""
    name = _mount_member(item.DESCRIPTOR.full_name, tuple(item.DESCRIPTOR.fields_by_name))
    return str(getattr(item, name)) if name else ""


@cache
def _mount_member(_: str, names: tuple[str, ...]) -> str:
    """`mount_path` where the item tells source and place apart, else `path`."""
    return next((name for name in ("mount_path", "path") if name in names), "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
