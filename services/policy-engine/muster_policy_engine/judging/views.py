"""A merged spec as rules look at it: whose fields, under which paths, and who gave what.

Made once a verdict, by the rules. In a gang the workers' fields are the spec's; the master has what it says itself,
and, for rules that name the master, all that it is given.
Holds: nothing is changed; a path is one of provenance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_language import LayerName, Merged, Row
from muster_language.catalogue import value_types as of
from muster_language.labels import label_of
from muster_language.merging.layers import USERS
from muster_language.merging.overlay import given
from muster_language.merging.roles import complete_master
from muster_policy_engine.places import Place, Side
from muster_policy_engine.composing import Composed

_MASTER: Final = "masterSpec."


@dataclass(frozen=True, slots=True)
class View:
    """The fields of one side. `baseline`: what the policy alone gives it; `prefix`: in front of its paths."""

    spec: Any
    baseline: Any
    attributes: Any
    provenance: Mapping[str, LayerName]
    prefix: str = ""

    def by_users(self, path: str, within: str = "") -> bool:
        """Whether a template or the user gave what is at the path, or the item in which it is."""
        source = self.provenance.get(f"{self.prefix}{path}") or self.provenance.get(f"{self.prefix}{within}")
        return source in USERS

    def items(self, row: Row) -> list[Any]:
        """The items of a field."""
        return list(getattr(self.spec, row.name))


@dataclass(frozen=True, slots=True)
class Views:
    """The sides of a workload."""

    worker: View
    master: View | None
    whole_master: View | None

    def of(self, place: Place) -> list[View]:
        """The sides that a place is about."""
        if place.side is Side.MASTER:
            return [self.whole_master] if self.whole_master is not None else []
        if place.side is Side.ALL and place.row.for_roles and self.master is not None:
            # The document of a v1 DistributedPolicy judges the workers and what a master says itself.
            return [self.worker, self.master]
        return [self.worker]


def views(merged: Merged, composed: Composed) -> Views:
    """The sides of a merged spec."""
    spec = merged.spec
    worker = View(spec, composed.baseline, composed.attributes, merged.provenance)
    if not spec.HasField("master_spec"):
        return Views(worker, None, None)
    own = View(spec.master_spec, composed.baseline, composed.attributes, merged.provenance, _MASTER)
    baseline, attributes = composed.baseline.master_spec, composed.attributes.master_spec
    whole = View(complete_master(spec), baseline, attributes, merged.provenance, _MASTER)
    return Views(worker, own, whole)


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
