"""The typed workload and its kinds, under the names that the rest of the language uses.

Everyone who imports the language takes the message from here, so that pure rooms (policy's domain) never name protobuf.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2

WorkloadSpec = workload_pb2.WorkloadSpec

API_VERSION: Final = "run.ai/v2alpha1"


class Kind(IntEnum):
    """The kinds of workload. The value is the number of the proto's enum."""

    WORKSPACE = options_pb2.KIND_WORKSPACE
    TRAINING = options_pb2.KIND_TRAINING
    DISTRIBUTED = options_pb2.KIND_DISTRIBUTED
    INFERENCE = options_pb2.KIND_INFERENCE

    @property
    def document(self) -> str:
        """The word after `kind:` in a document, such as TrainingWorkload."""
        return _DOCUMENTS[self]

    @property
    def word(self) -> str:
        """The word in policies and for people, such as training."""
        return self.name.lower()


_DOCUMENTS: Final = {
    Kind.WORKSPACE: "InteractiveWorkload",
    Kind.TRAINING: "TrainingWorkload",
    Kind.DISTRIBUTED: "DistributedWorkload",
    Kind.INFERENCE: "InferenceWorkload",
}


def kind_of_document(word: str) -> Kind | None:
    """The kind that a document's `kind:` names, without regard to case; None for a word of no kind."""
    folded = word.casefold()
    return next((kind for kind, name in _DOCUMENTS.items() if name.casefold() == folded), None)


def kind_of(spec: WorkloadSpec) -> Kind | None:
    """The kind of a spec; None where it says none, or a number that this build does not know."""
    return _KINDS.get(int(spec.kind))


def set_kind(spec: WorkloadSpec, kind: Kind) -> None:
    """Sets the kind of a spec."""
    spec.kind = _PROTO[kind]


_KINDS: Final = {int(kind): kind for kind in Kind}
_PROTO: Final = {Kind(int(number)): number for number in options_pb2.Kind.values() if number}
