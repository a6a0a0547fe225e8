"""Names of places as the author of a REST body wrote them: `spec.environmentVariables[0].value`.

Called by `rest` for the LAYER stage, which speaks of a spec and not of the text that it came from.
Holds: an item is named by its place in the body, since the body has no labels for most of them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from muster_language.catalogue import Row
from muster_language.labels import label_of
from muster_language.naming import Naming
from muster_language.spec import WorkloadSpec


@dataclass(frozen=True, slots=True)
class BodyNaming:
    """Places in the body that `spec` was read from."""

    spec: WorkloadSpec
    root: str = "spec"
    # Row name -> label -> index of the item in its list.
    _places: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict, compare=False)

    def field(self, row: Row) -> str:
        """`spec.compute.gpuPortionRequest`; a name, with or without numbers, stands beside the spec."""
        if row.rest_beside_spec:
            return row.rest or "name"
        return f"{self.root}.{row.path or row.name}"

    def value(self, row: Row) -> str:
        """The same: REST wraps nothing."""
        return self.field(row)

    def inside(self, row: Row, member: Row) -> str:
        """`spec.probes.readiness.periodSeconds`."""
        return f"{self.field(row)}.{member.path or member.name}"

    def item(self, row: Row, label: str) -> str:
        """`spec.ports[0]`."""
        places = self._places.get(row.name)
        if places is None:
            labels = [label_of(item) for item in getattr(self.spec, row.name)]
            places = self._places[row.name] = {each: place for place, each in reversed(list(enumerate(labels)))}
        return f"{self.field(row)}[{places[label]}]" if label in places else f"{self.field(row)}.{label}"

    def member(self, row: Row, label: str, member: Row) -> str:
        """`spec.ports[0].container`."""
        return f"{self.item(row, label)}.{member.path or member.name}"

    def master(self) -> Naming:
        """`masterSpec.compute.gpuPortionRequest`."""
        return BodyNaming(self.spec.master_spec, "masterSpec")
