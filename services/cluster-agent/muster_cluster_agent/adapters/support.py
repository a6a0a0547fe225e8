"""What a back end does with each field of the workload language.

Each back end declares one `Support`. The composition root hands it to the reader of assignments, and the back end puts
its words into the cluster's profile, by which the scheduler places nothing that would be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2


def _words() -> dict[str, str]:
    """Each field's word in documents, by its name."""
    fields = workload_pb2.WorkloadSpec.DESCRIPTOR.fields
    return {field.name: field.GetOptions().Extensions[options_pb2.field].yaml or field.name for field in fields}


_WORDS: Final = _words()


CONTROL_PLANE: Final = frozenset(
    {"active", "annotations", "auto_deletion_seconds", "backoff_limit", "base_workload", "clusters"}
    | {"colossal", "data_label", "extended_resources", "ingress_url", "kind", "labels"}
    | {"max_replicas", "max_scale", "min_replicas", "min_scale", "mpi", "name", "name_prefix"}
    | {"node_pools", "node_type", "non_preemptible", "pod_affinity", "pod_affinity_scheduling_rule"}
    | {"pod_affinity_topology", "pod_anti_affinity", "pod_anti_affinity_scheduling_rule"}
    | {"pod_anti_affinity_topology", "preemptible", "preemption_limit", "preferred_clusters"}
    | {"priority_class", "related_urls", "terminate_after_preemption", "tolerations"}
    | {"topology_group", "topology_group_size", "topology_preferred", "topology_required", "usage"}
    | {"user_id", "username"}
)
"""Fields that the control plane deals with, wherever a workload runs: they are no matter of a back end."""


@dataclass(frozen=True, slots=True)
class Support:
    """What a back end does with the fields of WorkloadSpec; each field is in exactly one of the four sets.

    honoured: it has its effect. no_matter: the control plane deals with it, wherever the workload runs. ignored: it
    has no effect, and the workload's condition says so, beginning with `because`. refused: such a workload is not
    placed here. refused_values: values of honoured fields that are refused, written as `jobType=TF`.
    containers: it makes containers of images. notebook: the image of a workspace that asks for Jupyter and names none.
    Raises ValueError where a field is in no set or in two, so that a new field of the language is a decision.
    """

    honoured: frozenset[str]
    no_matter: frozenset[str]
    ignored: frozenset[str]
    refused: frozenset[str]
    refused_values: tuple[str, ...] = ()
    because: str = ""
    containers: bool = False
    notebook: str = ""

    def __post_init__(self) -> None:
        """Checks that each field is in one set."""
        listed = sorted([*self.honoured, *self.no_matter, *self.ignored, *self.refused])
        if listed != sorted(_WORDS):
            wrong = sorted({*_WORDS} ^ {*listed} | {name for name in listed if listed.count(name) > 1})
            raise ValueError(f"not in exactly one set of fields: {', '.join(wrong)}")

    @property
    def ignored_words(self) -> tuple[str, ...]:
        """The words of documents that have no effect here."""
        return tuple(sorted(_WORDS[name] for name in self.ignored))

    @property
    def refused_words(self) -> tuple[str, ...]:
        """The words of documents that are refused here."""
        return tuple(sorted([*(_WORDS[name] for name in self.refused), *self.refused_values]))

    def without_effect(self, spec: workload_pb2.WorkloadSpec) -> str:
        """A sentence about what the spec sets and has no effect here; empty where everything has."""
        words = self._ignored(spec)
        # The master's fields are complete: what it shares with the workers is said once.
        words += [f"masterSpec {word}" for word in self._ignored(spec.master_spec) if word not in words]
        # Interned, because an agent keeps the sentence of each of up to 170,000 assignments.
        return intern(f"{self.because}: {', '.join(words)} had no effect") if words else ""

    def _ignored(self, spec: workload_pb2.WorkloadSpec) -> list[str]:
        return [_WORDS[field.name] for field, _ in spec.ListFields() if field.name in self.ignored]
