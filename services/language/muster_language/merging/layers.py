"""The layers of a workload, the lowest first, and what a merge of them gives.

Built by policy (which knows its scopes), submission (templates) and the tests; read by `merge` and `overlay`.
Holds: the words are those of `Source.layer` in the events; a layer is never changed once it is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from muster_language.catalogue import catalogue
from muster_language.spec import Kind, WorkloadSpec, set_kind
from muster_language.values import typed


class LayerName(StrEnum):
    """The layers in their order; `derived` is not a layer that anybody gives: it names what the language works out."""

    LANGUAGE = "language"
    TENANT = "policy of the tenant"
    CLUSTER = "policy of the cluster"
    DEPARTMENT = "policy of the department"
    PROJECT = "policy of the project"
    TEMPLATE = "template"
    WORKLOAD = "workload"
    IMPOSED = "imposed"
    DERIVED = "derived"


POLICIES: Final = frozenset({LayerName.TENANT, LayerName.CLUSTER, LayerName.DEPARTMENT, LayerName.PROJECT})
USERS: Final = frozenset({LayerName.TEMPLATE, LayerName.WORKLOAD})
# A name, a usage or a base that came from elsewhere would make this workload another one. The language's own defaults
# for such fields (usage: Submit) are nobody's, so they do reach it.
SHARED: Final = POLICIES | {LayerName.TEMPLATE, LayerName.IMPOSED}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer under its name.

    attributes: per itemized field one item, whose members every remaining item gets that does not say them itself (a
    policy's `attributes`); its label says nothing.
    """

    name: LayerName
    spec: WorkloadSpec
    attributes: WorkloadSpec | None = None


@dataclass(frozen=True, slots=True)
class Cleared:
    """A value or item of `layer` at `path` that the layer `by` took away without giving one of its own there."""

    path: str
    layer: LayerName
    by: LayerName


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged spec; `provenance` says per field or item path which layer its value came from."""

    spec: WorkloadSpec
    provenance: dict[str, LayerName]
    cleared: list[Cleared]


@cache
def language_layer(kind: Kind) -> Layer:
    """The defaults that the language itself gives to a kind: the lowest layer. Not to be changed by callers."""
    spec = WorkloadSpec()
    set_kind(spec, kind)
    for row in catalogue().of_kind(kind):
        if row.default is not None:
            setattr(spec, row.name, typed(row, row.default))
    return Layer(LayerName.LANGUAGE, spec)
