"""Credentials inside a spec: where they stand, what they are, and the spec without them.

Called by submission, which seals literals before anything else sees them, and wherever a spec is shown. The catalogue
says which fields are sensitive. Holds: a masked spec has neither a literal nor the id of a sealed one in it; references
to a project's secrets (`SECRET:name,key`) name things and stay readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from muster.options.v1 import options_pb2
from muster_kernel.sealed import SEALED
from muster_language.labels import label_of
from muster_language.spec import WorkloadSpec

MASK: Final = "***"
"""What stands for a credential wherever a spec is shown; in a spec that is applied again: as it was."""
REFERENCE: Final = "SECRET:"
_ITEM: Final = "label"


@dataclass(frozen=True, slots=True)
class Place:
    """One sensitive field that is set: the message that has it, its name there, and where that is in the spec.

    Items are named by their labels, so that a place means the same in two versions of a spec.
    """

    holder: Any
    name: str
    path: tuple[str, ...]

    @property
    def text(self) -> str:
        """What stands there."""
        return str(getattr(self.holder, self.name))

    @property
    def where(self) -> str:
        """Where it is, for an error."""
        return ".".join(("spec", *(part for part in self.path if part)))

    @property
    def literal(self) -> bool:
        """Whether it is a credential as somebody wrote it."""
        return bool(self.text) and self.text != MASK and not self.text.startswith((SEALED, REFERENCE))

    def put(self, text: str) -> None:
        """Writes something else there."""
        setattr(self.holder, self.name, text)


def places(spec: WorkloadSpec) -> Iterator[Place]:
    """The sensitive fields that are set. A spec without any costs one look at its fields."""
    return _places(spec, ())


def has_sensitive(spec: WorkloadSpec) -> bool:
    """Whether any sensitive field is set."""
    return next(_places(spec, ()), None) is not None


def masked(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec as people may see it; the very same message where there is nothing to hide."""
    if not any(each.text and not each.text.startswith(REFERENCE) for each in places(spec)):
        return spec
    shown = WorkloadSpec()
    shown.CopyFrom(spec)
    mask(shown)
    return shown


def mask(spec: WorkloadSpec) -> None:
    """Hides every credential, in place."""
    for each in places(spec):
        if each.text and not each.text.startswith(REFERENCE):
            each.put(MASK)


def _places(message: Any, path: tuple[str, ...]) -> Iterator[Place]:
    inside = _fields(message.DESCRIPTOR.full_name)
    for field, value in message.ListFields():
        leaf = inside.get(field.number)
        if leaf is None:
            continue
        if leaf:
            yield Place(message, field.name, (*path, field.name))
        elif field.is_repeated:
            for item in value:
                named = label_of(item) if _ITEM in item.DESCRIPTOR.fields_by_name else getattr(item, "role", "")
                yield from _places(item, (*path, field.name, named))
        else:
            yield from _places(value, (*path, field.name))


@cache
def _fields(message: str) -> Mapping[int, bool]:
    """The numbers of a message's fields in which sensitive ones are: true for such a field itself."""
    return _found(WorkloadSpec.DESCRIPTOR.file.pool.FindMessageTypeByName(message))


def _found(descriptor: Descriptor) -> dict[int, bool]:
    found: dict[int, bool] = {}
    for field in descriptor.fields:
        if _is_sensitive(field):
            found[field.number] = True
        elif field.message_type is not None and _reaches(field.message_type, frozenset()):
            found[field.number] = False
    return found


def _reaches(descriptor: Descriptor, seen: frozenset[str]) -> bool:
    """Whether a sensitive field is somewhere inside. A spec inside a spec is looked at once."""
    if descriptor.full_name in seen:
        return False
    below = seen | {descriptor.full_name}
    return any(
        _is_sensitive(field) or (field.message_type is not None and _reaches(field.message_type, below))
        for field in descriptor.fields
    )


def _is_sensitive(field: FieldDescriptor) -> bool:
    return bool(field.GetOptions().Extensions[options_pb2.field].sensitive)
