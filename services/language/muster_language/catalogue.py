"""The catalogue: one row per field of the workload language, read at run time from the options on the proto's fields.

Reader, writer, validation, merge, explain and policy all ask it; none of them repeats what a row says.
Holds: built once per process from the descriptors, immutable afterwards; every YAML name and REST path names one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from muster.options.v1 import options_pb2
from muster_language import value_types as of
from muster_language.spec import Kind, WorkloadSpec

# The number of devices belongs to the GPU request as a whole: `gpu: 2` over an inherited `gpu: 0.5` means two devices
# and not two halves. The row cannot say it by `exclusive`, since beside a portion or memory it is legal in one layer.
COMPANIONS: Final[Mapping[str, str]] = MappingProxyType({"gpu_devices_request": "gpu"})
# What qualifies a member of a group and goes with it: a limit of an inherited portion would limit another request.
FOLLOWERS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("gpu_portion_limit", "gpu_memory_limit", "gpu_request_type"), "gpu")
)


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The wire words of an enum: `by_word` folded word -> number, `by_number` number -> the word as it is written."""

    by_word: Mapping[str, int]
    by_number: Mapping[int, str]

    @property
    def allowed(self) -> str:
        """The words for a person: `Always, IfNotPresent or Never`."""
        return either(list(self.by_number.values()))


@dataclass(frozen=True, slots=True, eq=False)
class PolicyPath:
    """One policy path of a row, with the rule words (min, canEdit, ..) and kinds that it takes."""

    path: str
    rules: frozenset[str]
    kinds: frozenset[Kind]
    defaultable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One field. `name` is the proto's; `yaml` and `rest` are what users write; numbers carry the row's `unit`."""

    name: str
    number: int
    yaml: str
    aliases: tuple[str, ...]
    rest: str
    kinds: frozenset[Kind]
    group: str
    type: int
    unit: str
    minimum: float | None
    maximum: float | None
    step: float | None
    default: str | None
    exclusive: str
    item_key: str
    pattern: str
    max_length: int
    quantity: str
    description: str
    since: str
    bare: bool
    mandatory: bool
    own: bool
    mutable: bool
    sensitive: bool
    deferrable: bool
    beside_spec: bool
    role_scope: int
    repeated: bool
    policy: tuple[PolicyPath, ...]
    words: Words | None
    members: tuple[Row, ...] = field(repr=False)

    @property
    def path(self) -> str:
        """The one name under which provenance and issues speak of the field: its REST path, else its YAML name."""
        return self.rest or self.yaml

    @property
    def for_roles(self) -> bool:
        """Whether workers and master are each given it, so that masterSpec may say it."""
        return self.role_scope == options_pb2.ROLE_SCOPE_ANY

    def member(self, yaml: str) -> Row | None:
        """The member of an object or an item by its YAML name."""
        return next((row for row in self.members if row.yaml == yaml), None)


class Catalogue:
    """All rows of a workload, by each of the names they go by."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        self.by_name: Mapping[str, Row] = MappingProxyType({row.name: row for row in rows})
        self.by_number: Mapping[int, Row] = MappingProxyType({row.number: row for row in rows})
        self.by_yaml: Mapping[str, Row] = MappingProxyType(
            _unique(rows, [(key, row) for row in rows for key in _keys(row)])
        )
        self.by_rest: Mapping[str, Row] = MappingProxyType(_unique(rows, [(row.rest, row) for row in rows if row.rest]))
        self.by_policy: Mapping[str, tuple[Row, PolicyPath]] = MappingProxyType(
            {path.path: (row, path) for row in rows for path in row.policy}
        )

    def of_kind(self, kind: Kind) -> tuple[Row, ...]:
        """The rows that a kind takes, in the order of the proto."""
        return tuple(row for row in self.rows if kind in row.kinds)


@cache
def catalogue() -> Catalogue:
    """The catalogue of this build."""
    return Catalogue(_rows(WorkloadSpec.DESCRIPTOR, inside=frozenset()))


def nearest(word: str, known: list[str]) -> str | None:
    """The known name that a mistyped one most likely means; None where nothing is near."""
    folded = {name.casefold(): name for name in known}
    found = get_close_matches(word.casefold()[:80], list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def either(words: list[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _keys(row: Row) -> tuple[str, ...]:
    return (row.yaml, *row.aliases) if row.yaml else ()


def _unique(rows: tuple[Row, ...], pairs: list[tuple[str, Row]]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for key, row in pairs:
        # Two fields under one name would make a document mean whichever was declared last.
        if found.setdefault(key, row) is not row:
            raise ValueError(
                f"the catalogue of {len(rows)} rows names two fields {key!r}: {found[key].name} and {row.name}"
            )
    return found


def _rows(message: Descriptor, inside: frozenset[str]) -> tuple[Row, ...]:
    fields = [each for each in message.fields if each.GetOptions().HasExtension(options_pb2.field)]
    return tuple(_row(each, inside | {message.full_name}) for each in fields)


def _row(descriptor: FieldDescriptor, inside: frozenset[str]) -> Row:
    said = descriptor.GetOptions().Extensions[options_pb2.field]
    nested = descriptor.message_type
    # masterSpec holds a whole spec: its members are the catalogue's own rows, and repeating them would never end.
    members = _rows(nested, inside) if nested is not None and nested.full_name not in inside else ()
    kinds = frozenset(Kind(kind) for kind in said.kinds)
    return Row(
        name=descriptor.name,
        number=descriptor.number,
        yaml=said.yaml,
        aliases=tuple(said.yaml_aliases),
        rest=said.rest,
        kinds=kinds,
        group=said.group,
        type=said.type or _type_of(descriptor),
        unit=said.unit,
        minimum=said.minimum if said.HasField("minimum") else None,
        maximum=said.maximum if said.HasField("maximum") else None,
        step=said.step if said.HasField("step") else None,
        default=said.default_value if said.HasField("default_value") else None,
        exclusive=said.exclusive,
        item_key=said.item_key,
        pattern=said.pattern,
        max_length=said.max_length or of.LONGEST_TEXT,
        quantity=said.quantity,
        description=said.description,
        since=said.since,
        bare=said.bare,
        mandatory=said.mandatory,
        own=said.own,
        mutable=said.mutable,
        sensitive=said.sensitive,
        deferrable=said.deferrable,
        beside_spec=said.beside_spec,
        role_scope=said.role_scope,
        repeated=descriptor.is_repeated,
        policy=tuple(_policy(path, kinds) for path in said.policy),
        words=_words(descriptor.enum_type) if descriptor.enum_type is not None else None,
        members=members,
    )


_BY_CPP_TYPE: Final = {
    FieldDescriptor.CPPTYPE_BOOL: of.BOOLEAN,
    FieldDescriptor.CPPTYPE_STRING: of.STRING,
    FieldDescriptor.CPPTYPE_ENUM: of.STRING,
    FieldDescriptor.CPPTYPE_DOUBLE: of.NUMBER,
    FieldDescriptor.CPPTYPE_MESSAGE: of.OBJECT,
}


def _type_of(descriptor: FieldDescriptor) -> int:
    return _BY_CPP_TYPE.get(descriptor.cpp_type, of.INTEGER)


_RULE_WORDS: Final = {
    options_pb2.POLICY_RULE_CAN_EDIT: "canEdit",
    options_pb2.POLICY_RULE_REQUIRED: "required",
    options_pb2.POLICY_RULE_MIN: "min",
    options_pb2.POLICY_RULE_MAX: "max",
    options_pb2.POLICY_RULE_STEP: "step",
    options_pb2.POLICY_RULE_OPTIONS: "options",
    options_pb2.POLICY_RULE_CAN_ADD: "canAdd",
    options_pb2.POLICY_RULE_LOCKED: "locked",
}


def _policy(path: options_pb2.PolicyPath, kinds: frozenset[Kind]) -> PolicyPath:
    return PolicyPath(
        path=path.path,
        rules=frozenset(_RULE_WORDS[rule] for rule in path.rules),
        kinds=frozenset(Kind(kind) for kind in path.kinds) or kinds,
        defaultable=path.defaultable,
    )


def _words(enum: EnumDescriptor) -> Words:
    by_word: dict[str, int] = {}
    by_number: dict[int, str] = {}
    for value in enum.values:
        if not value.GetOptions().HasExtension(options_pb2.word):
            continue
        said = value.GetOptions().Extensions[options_pb2.word]
        by_number[value.number] = said.word
        by_word |= dict.fromkeys((word.casefold() for word in (said.word, *said.aliases)), value.number)
    return Words(MappingProxyType(by_word), MappingProxyType(by_number))
