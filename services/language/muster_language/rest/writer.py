"""Typed specs as REST has them.

Called by submission where it answers. Holds: what is written reads back to a spec that is written the same; literal
credentials have no REST form and are never written.
"""

from __future__ import annotations

from typing import Any

from muster_language.catalogue import Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.rest.compounds import for_rest, secret_of, serving
from muster_language.rest.reader import is_set
from muster_language.rest.tree import Branch, Leaf, spec_tree
from muster_language.rest.values import to_json
from muster_language.spec import Kind, WorkloadSpec, kind_of


def write_body(spec: WorkloadSpec) -> dict[str, Any]:
    """`{"spec": .., "masterSpec": ..}` of a spec. Raises ValueError for a spec without a kind."""
    kind = kind_of(spec)
    if kind is None:
        raise ValueError("a spec without a kind cannot be written: nobody could tell which members it takes")
    full = for_rest(spec)
    written = _members(spec_tree(kind), full)
    if kind is Kind.INFERENCE:
        _serving(written, full)
    body: dict[str, Any] = {"spec": written}
    if kind is Kind.DISTRIBUTED:
        if full.HasField("master_spec"):
            body["masterSpec"] = _members(spec_tree(kind, master=True), full.master_spec)
        else:
            body["masterSpecSameAsWorker"] = True
    return body


def answer_body(spec: WorkloadSpec) -> dict[str, Any]:
    """The same for an answer of 2.18: what it has no word for stands under `additionalFields`, by its path."""
    body = write_body(spec)
    left = _without_words(body["spec"])
    left |= {f"masterSpec.{path}": said for path, said in _without_words(body.get("masterSpec", {})).items()}
    return body | ({"additionalFields": left} if left else {})


def _without_words(written: dict[str, Any]) -> dict[str, Any]:
    """Takes out, by path, what 2.18 has no word for."""
    left: dict[str, Any] = {}
    for row in catalogue().rows:
        *above, last = row.rest.split(".")
        members = written
        for name in above:
            members = members.get(name, {})
        if row.rest_words and members.get(last, row.rest_words[0]) not in row.rest_words:
            left[row.rest] = members.pop(last)
    return left


def _serving(written: dict[str, Any], spec: WorkloadSpec) -> None:
    port, more = serving(spec)
    if port:
        written["servingPort"] = port
    if not more:
        written["ports"] = written["ports"][1:]
        if not written["ports"]:
            del written["ports"]


def _members(branch: Branch, message: Any) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, node in branch.members.items():
        if isinstance(node, Branch):
            below = _members(node, message)
            if below:
                written[name] = below
        else:
            value = _leaf(node, message)
            if value is not None:
                written[name] = value
    return written


def _leaf(leaf: Leaf, message: Any) -> Any:
    row = leaf.row
    if row.type == of.ITEMIZED:
        return [_item(leaf, item) for item in getattr(message, row.name) if _has_form(row, item)] or None
    if not is_set(message, row.name) or row.sensitive:
        return None
    value = getattr(message, row.name)
    match row.type:
        case of.OBJECT if leaf.inside is not None:
            return _members(leaf.inside, value)
        case of.ARRAY:
            return list(value.values)
        case _:
            # An empty text clears what a lower layer gives; REST, which has one layer, has no word for it.
            return None if value == "" and row.rest_min_length else to_json(row, value)


def _item(leaf: Leaf, item: Any) -> dict[str, Any]:
    written = {} if leaf.inside is None else _members(leaf.inside, item)
    if leaf.row.name == "environment" and (secret := secret_of(item)) is not None:
        del written["value"]
        written["secret"] = secret
    return written


def _has_form(row: Row, item: Any) -> bool:
    """Whether REST can say the item: it has no word for most tombstones."""
    return not item.deleted or any(member.name == "deleted" and member.rest for member in row.inside)
