"""A typed spec as a YAML document that reads back to the same spec.

Called by the client (`muster get -o yaml`, `templates list`) and by submission where it shows a template.
Holds: `read(write(spec))` gives `spec` again for every spec that the LAYER stage takes; a secret is never written.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from muster_language import value_types as of
from muster_language.catalogue import Row, catalogue
from muster_language.labels import label_of
from muster_language.spec import API_VERSION, WorkloadSpec, kind_of

_WIDTH: Final = 120
_MASK: Final = "***"


def write(spec: WorkloadSpec, *, namespace: str | None = None, metadata_name: str | None = None) -> str:
    """The document of a spec. `metadata_name` is what Kubernetes calls the object, else the spec's own name.

    Raises ValueError for a spec without a kind.
    """
    kind = kind_of(spec)
    if kind is None:
        raise ValueError("a spec without a kind cannot be written: no document says what it is")
    metadata = {"name": metadata_name or spec.name, "namespace": namespace}
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": kind.document}
    if any(metadata.values()):
        document["metadata"] = {key: value for key, value in metadata.items() if value}
    document["spec"] = _fields(spec)
    for row in catalogue().rows:
        if row.beside_spec and spec.HasField(row.name):  # type: ignore[arg-type]
            document[row.yaml] = _fields(getattr(spec, row.name))
    text: str = yaml.dump(
        document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=False
    )
    return text


def _fields(spec: Any) -> dict[str, Any]:
    rows = catalogue().by_number
    given = [(rows[field.number], value) for field, value in spec.ListFields() if field.number in rows]
    return {row.yaml: _field(row, value) for row, value in given if row.yaml and not row.beside_spec}


def _field(row: Row, value: Any) -> Any:
    if row.type == of.ITEMIZED:
        return {"items": {label_of(item): _item(row, item) for item in value}}
    written = _value(row, value)
    return written if row.bare else {"value": written}


def _value(row: Row, value: Any) -> Any:
    if row.sensitive:
        return _MASK
    if row.words is not None:
        return row.words.by_number.get(value, value)
    match row.type:
        case of.ARRAY:
            return list(value.values) if len(value.values) != 1 else value.values[0]
        case of.OBJECT:
            return _object(row, value)
        case of.NUMBER:
            return int(value) if float(value).is_integer() else value
        case _:
            return value


def _object(row: Row, message: Any) -> dict[str, Any]:
    given = [member for member in row.members if message.HasField(member.name)]
    return {member.yaml: _value(member, getattr(message, member.name)) for member in given}


def _item(row: Row, item: Any) -> dict[str, Any]:
    written: dict[str, Any] = {"deleted": item.deleted} if item.HasField("deleted") else {}
    if row.members:
        members = _object(row, item)
        if members:
            written["value"] = members
    elif item.HasField("value"):
        written["value"] = item.value
    return written
