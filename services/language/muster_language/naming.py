"""How errors and provenance name a place in a spec: by its YAML path or by its REST path.

Used by the checks, which do not know by which channel a spec came in.
Holds: a path is put together only where something is wrong; two places of a spec never have one name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from muster_language.catalogue import Row


class Naming(Protocol):
    """Names of places."""

    def field(self, row: Row) -> str:
        """A field as a whole."""
        ...

    def value(self, row: Row) -> str:
        """The value of a scalar field, or of an object."""
        ...

    def inside(self, row: Row, member: Row) -> str:
        """A member of an object."""
        ...

    def item(self, row: Row, label: str) -> str:
        """An item of a field."""
        ...

    def member(self, row: Row, label: str, member: Row) -> str:
        """A member of an item."""
        ...

    def master(self) -> Naming:
        """The same for the fields of masterSpec."""
        ...


@dataclass(frozen=True, slots=True)
class YamlNaming:
    """`spec.gpu.value`, `spec.ports.items.http.value.container`."""

    root: str = "spec"

    def field(self, row: Row) -> str:
        """`spec.gpu`; masterSpec stands beside the spec."""
        return row.yaml if row.beside_spec else f"{self.root}.{row.yaml or row.name}"

    def value(self, row: Row) -> str:
        """`spec.gpu.value`, or `spec.jobType` where it has no wrapper."""
        return self.field(row) if row.bare else f"{self.field(row)}.value"

    def inside(self, row: Row, member: Row) -> str:
        """`spec.readinessProbe.value.port`."""
        return f"{self.value(row)}.{member.yaml or member.name}"

    def item(self, row: Row, label: str) -> str:
        """`spec.ports.items.http`."""
        return f"{self.field(row)}.items.{label}"

    def member(self, row: Row, label: str, member: Row) -> str:
        """`spec.ports.items.http.value.container`; a variable has its text itself as its value."""
        value = f"{self.item(row, label)}.value"
        return value if member.name == "value" else f"{value}.{member.yaml or member.name}"

    def master(self) -> Naming:
        """`masterSpec.gpu.value`."""
        return YamlNaming("masterSpec")


@dataclass(frozen=True, slots=True)
class RestNaming:
    """`compute.gpuPortionRequest`, `ports.http.container`: the names of provenance, issues and policies too."""

    root: str = ""

    def field(self, row: Row) -> str:
        """`compute.gpuPortionRequest`."""
        return f"{self.root}{row.path}"

    def value(self, row: Row) -> str:
        """The same: REST wraps nothing."""
        return self.field(row)

    def inside(self, row: Row, member: Row) -> str:
        """`probes.readiness.periodSeconds`."""
        return f"{self.field(row)}.{member.path or member.name}"

    def item(self, row: Row, label: str) -> str:
        """`ports.http`: by its label, as layers merge it, not by a place that another layer may move."""
        return f"{self.field(row)}.{label}"

    def member(self, row: Row, label: str, member: Row) -> str:
        """`ports.http.container`."""
        return f"{self.item(row, label)}.{member.path or member.name}"

    def master(self) -> Naming:
        """`masterSpec.compute.gpuPortionRequest`."""
        return RestNaming("masterSpec.")


YAML = YamlNaming()
REST = RestNaming()
