"""A typed spec as a YAML document that reads back to the same spec.

Called by the client (`muster get -o yaml`, `templates list`) and by submission where it shows a template.
Holds: `read(write(spec))` gives `spec` again for every spec that the LAYER stage takes and that holds no credential; a
credential is never written, `***` stands in its place.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from muster_language.catalogue import Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.documents.structs import Quoted, plain
from muster_language.kubernetes import colossal
from muster_language.labels import label_of
from muster_language.sensitive import MASK, REFERENCE
from muster_language.spec import API_VERSION, WorkloadSpec, kind_of

_WIDTH: Final = 120
_ALONE: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.@/:]*")  # an entry that needs no list around it
_LABELLED: Final = {"capabilities": "capability"}  # lists that the language writes as labelled items


def write(spec: WorkloadSpec, *, namespace: str | None = None, metadata_name: str | None = None) -> str:
    """The document of a spec. `metadata_name` is what Kubernetes calls the object, else the spec's own name.

    Raises ValueError for a spec without a kind.
    """
    kind = kind_of(spec)
    if kind is None:
        raise ValueError("a spec without a kind cannot be written: no document says what it is")
    metadata = {"name": metadata_name or spec.name, "namespace": namespace}
    given = {key: value for key, value in metadata.items() if value}
    if spec.HasField("colossal"):
        return _dump({"apiVersion": colossal.API_VERSION, "kind": colossal.KIND}, given, {"spec": _job(spec)})
    parts = {"spec": _fields(spec)}
    for row in catalogue().rows:
        if row.beside_spec and spec.HasField(row.name):  # type: ignore[arg-type]
            parts[row.yaml] = _fields(getattr(spec, row.name))
    return _dump({"apiVersion": API_VERSION, "kind": kind.document}, given, parts)


class _Dumper(yaml.CSafeDumper):
    """PyYAML's own, with texts that must keep their quotes."""


def _quoted(dumper: yaml.CSafeDumper, text: Quoted) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


_Dumper.add_representer(Quoted, _quoted)


def _dump(head: dict[str, Any], metadata: dict[str, Any], parts: dict[str, Any]) -> str:
    document = {**head, **({"metadata": metadata} if metadata else {}), **parts}
    text = _yaml(document, letters=True)
    # A document is shown in terminals: what a terminal would obey or hide (ESC, U+202E) is written as an escape.
    return text if all(char.isprintable() or char == "\n" for char in text) else _yaml(document, letters=False)


def _yaml(document: dict[str, Any], *, letters: bool) -> str:
    """letters: those beyond ASCII stay as they are; else each is an escape."""
    text: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=letters, width=_WIDTH, default_flow_style=False
    )
    return text


def _fields(spec: Any) -> dict[str, Any]:
    rows = catalogue().by_number
    given = [(rows[field.number], value) for field, value in spec.ListFields() if field.number in rows]
    written = {row.yaml: _field(row, value) for row, value in given if row.yaml and not row.beside_spec}
    if spec.HasField("gpu_devices_request") and spec.gpu_devices_request == 0:
        # The two are one field of the spec; in a document only `gpu` may say none.
        written["gpu"] = written.pop("gpuDevices")
    return written


def _field(row: Row, value: Any) -> Any:
    if row.type == of.ITEMIZED:
        return {"items": {label_of(item): _item(row, item) for item in value}}
    if row.name in _LABELLED:
        return {"items": {each: {"value": {_LABELLED[row.name]: each}} for each in value.values}}
    written = _joined(value.values) if row.type == of.ARRAY else _value(row, value)
    return written if row.bare else {"value": written}


def _joined(entries: Any) -> str | list[str]:
    """One text where it can be: a Kubernetes schema has no type for both a text and a list."""
    return ",".join(entries) if entries and all(map(_ALONE.fullmatch, entries)) else list(entries)


def _value(row: Row, value: Any) -> Any:
    if row.sensitive:
        return value if value.startswith(REFERENCE) else MASK
    if row.words is not None:
        return row.words.by_number.get(value, value)
    match row.type:
        case of.ARRAY:
            return list(value.values)
        case of.OBJECT:
            return _object(row, value)
        case of.NUMBER:
            # A fraction in quotes: a Kubernetes schema has no type for both a whole number and a fraction.
            return int(value) if float(value).is_integer() else str(value)
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


def _job(spec: WorkloadSpec) -> dict[str, Any]:
    (row,) = catalogue().whole
    return _message(row.inside, spec.colossal)


def _message(rows: tuple[Row, ...], message: Any) -> dict[str, Any]:
    given = {row.name: row for row in rows}
    return {
        given[field.name].yaml: _member(given[field.name], value)
        for field, value in message.ListFields()
        if field.name in given
    }


def _member(row: Row, value: Any) -> Any:
    if row.words is not None:
        return row.words.by_number.get(value, value)
    if row.name == "template":
        return plain(value)
    if row.repeated:
        return [_message(row.inside, each) if row.inside else each for each in value]
    return _message(row.inside, value) if row.inside else value
