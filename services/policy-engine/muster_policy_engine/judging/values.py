"""The values of a spec in the form in which rules compare them.

Called by the views, the rules and the working out of defaults. Pure.
Holds: None means that the value is not said; a label that an item gets from its content is not said.
"""

from __future__ import annotations

from typing import Any

from muster_language import Row
from muster_language.catalogue import value_types as of
from muster_language.labels import label_of
from muster_language.merging.overlay import given
from muster_policy_engine.places import Place


def said(spec: Any, place: Place) -> Any:
    """The value that a spec has at the place of a field, or of a member of an object; None where it says none."""
    if place.member is None:
        return value_of(place.row, spec)
    return value_of(place.member, getattr(spec, place.row.name)) if spec.HasField(place.row.name) else None


def value_of(row: Row, message: Any) -> Any:
    """The value of a field or member, in a form that compares; None where it is not said."""
    if row.name == "label":
        return _name(message)
    if row.type == of.ITEMIZED:
        return [each.SerializeToString(deterministic=True) for each in getattr(message, row.name)] or None
    if not given(row, message):
        return None
    value = getattr(message, row.name)
    return list(value.values) if row.type == of.ARRAY else value


def _name(item: Any) -> str | None:
    """The name of an item; None for the label that every item without a name gets from what it says."""
    nameless = type(item)()
    nameless.CopyFrom(item)
    nameless.ClearField("label")
    return item.label if item.label != label_of(nameless) else None
