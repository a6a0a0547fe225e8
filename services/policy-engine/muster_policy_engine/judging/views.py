"""A merged spec as rules look at it: whose fields, under which paths, and who gave what.

Made once a verdict, by the rules. In a gang the workers' fields are the spec's; the master has what it says itself,
and, for rules that name the master, all that it is given.
Holds: nothing is changed; a path is one of provenance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_language import Cleared, LayerName, Merged, Row, WorkloadSpec
from muster_language.merging.layers import POLICIES, USERS
from muster_language.merging.roles import complete_master
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.leaving_out import LeftOut
from muster_policy_engine.judging.rewritten import moved, spelled_out
from muster_policy_engine.judging.values import said
from muster_policy_engine.places import Place, Side

_MASTER: Final = "masterSpec."


@dataclass(frozen=True, slots=True)
class View:
    """The fields of one side.

    baseline: what the policies alone give it. left_out: what it would be without one of its fields. prefix: in front of
    its paths. prefixes: where provenance may speak of its values, the nearest first; a master has values of the
    workers. gone: paths of the policies' values that users took away.
    """

    spec: Any
    baseline: Any
    left_out: LeftOut
    provenance: Mapping[str, LayerName]
    gone: frozenset[str]
    prefix: str = ""
    prefixes: tuple[str, ...] = ("",)

    @property
    def master(self) -> bool:
        """Whether it is the master's side."""
        return bool(self.prefix)

    def source(self, path: str, within: str = "") -> LayerName | None:
        """The layer that gave what is at the path, or the item in which it is; None: no layer did."""
        found = (
            self.provenance.get(f"{prefix}{path}") or self.provenance.get(f"{prefix}{within}")
            for prefix in self.prefixes
        )
        return next((each for each in found if each is not None), None)

    def by_users(self, path: str, within: str = "") -> bool:
        """Whether a template or the user gave what is at the path, or the item in which it is."""
        return self.source(path, within) in USERS

    def taken_away(self, path: str) -> bool:
        """Whether users took away what a policy gave at the path."""
        return f"{self.prefix}{path}" in self.gone

    def items(self, row: Row) -> list[Any]:
        """The items of a field."""
        return list(getattr(self.spec, row.name))

    def value(self, place: Place) -> Any:
        """The value of a field, or of a member of an object; None where it is not said."""
        return said(self.spec, place)

    def unedited(self, place: Place) -> Any:
        """What would be there if the users said nothing of it."""
        return said(self.left_out.role(place.row, place.member, master=self.master), place)


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


def views(merged: Merged, composed: Composed, left_out: LeftOut) -> Views:
    """The sides of a merged spec."""
    spec, provenance, gone = spelled_out(merged.spec), merged.provenance, _gone(merged.cleared)
    defaults = moved(composed.baseline)
    worker = View(spec, defaults, left_out, provenance, gone)
    if not spec.HasField("master_spec"):
        return Views(worker, None, None)
    own = View(spec.master_spec, defaults, left_out, provenance, gone, _MASTER, (_MASTER,))
    baseline = WorkloadSpec()
    baseline.CopyFrom(defaults)
    baseline.framework = spec.framework  # a launcher has no GPU of the workers
    baseline.master_spec.SetInParent()
    whole = View(complete_master(spec), complete_master(baseline), left_out, provenance, gone, _MASTER, (_MASTER, ""))
    return Views(worker, own, whole)


def _gone(cleared: list[Cleared]) -> frozenset[str]:
    return frozenset(each.path for each in cleared if each.layer in POLICIES and each.by in USERS)
