"""One row of the catalogue, read from the options on a proto field.

Made by `catalogue` once per process; everything else asks the rows. Holds: a row says what its option says and repeats
nothing; a message inside itself (masterSpec) has no rows of its own there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from muster.options.v1 import options_pb2
from muster_language.catalogue import value_types as of
from muster_language.spec import Kind


def either(words: list[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The wire words of an enum: `by_word` folded -> number, `by_number` number -> the word, `spelled` all of them."""

    by_word: Mapping[str, int]
    by_number: Mapping[int, str]
    spelled: tuple[str, ...]

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

    @property
    def all_rules(self) -> frozenset[str]:
        """The rules of 2.18, `blocked` for every path, and `defaultFrom` (2.24) for amounts, which have bounds."""
        return self.rules | {"blocked"} | ({"defaultFrom"} if "min" in self.rules else frozenset())


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One field. `name` is the proto's; `yaml` and `rest` are what users write; numbers carry the row's `unit`.

    inside: the rows of all fields of an item or object; members: those that YAML writes inside `value:`, so without an
    item's label and tombstone, and none where an item is one text. one_of: folded entry -> the entry as it is written.
    """

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
    rest_beside_spec: bool
    rest_also: tuple[str, ...]
    rest_kinds: frozenset[Kind]
    rest_words: tuple[str, ...]
    rest_min_length: int
    rest_format: str
    unset: str
    one_of: Mapping[str, str]
    keyed_by: str
    plain_items: bool
    refused: str
    note: str
    only: str
    allowed: str
    role_scope: int
    repeated: bool
    policy: tuple[PolicyPath, ...]
    words: Words | None
    inside: tuple[Row, ...] = field(repr=False)
    members: tuple[Row, ...] = field(repr=False)

    @property
    def path(self) -> str:
        """The one name under which provenance and issues speak of the field: its REST path, else its YAML name."""
        return self.rest or self.yaml or self.name

    @property
    def for_roles(self) -> bool:
        """Whether workers and master are each given it, so that masterSpec may say it."""
        return self.role_scope == options_pb2.ROLE_SCOPE_ANY

    def member(self, yaml: str) -> Row | None:
        """The member of an object or an item by its YAML name."""
        return next((row for row in self.members if row.yaml == yaml), None)


_EVERY_KIND: Final = frozenset(Kind)


_AS_SAID: Final = (
    *("yaml", "rest", "group", "unit", "exclusive", "item_key", "pattern"),
    *("quantity", "description", "since", "bare", "mandatory", "own", "mutable"),
    *("sensitive", "deferrable", "beside_spec", "rest_beside_spec", "rest_min_length", "rest_format", "unset"),
    *("keyed_by", "plain_items", "refused", "note", "only", "allowed", "role_scope"),
)
"""Members of a row that are its options as they stand."""


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a field: the messages, whose rows are not repeated, and the kinds that take it there."""

    messages: frozenset[str] = frozenset()
    kinds: frozenset[Kind] = _EVERY_KIND
    rest_kinds: frozenset[Kind] = _EVERY_KIND


def rows_of(message: Descriptor, around: _Around = _Around()) -> tuple[Row, ...]:
    """The rows of a message's fields, in the order of the proto."""
    fields = [each for each in message.fields if each.GetOptions().HasExtension(options_pb2.field)]
    return tuple(_row(each, replace(around, messages=around.messages | {message.full_name})) for each in fields)


def _row(descriptor: FieldDescriptor, around: _Around) -> Row:
    said = descriptor.GetOptions().Extensions[options_pb2.field]
    nested = descriptor.message_type
    kinds = frozenset(Kind(kind) for kind in said.kinds) or around.kinds
    rest_kinds = frozenset(Kind(kind) for kind in said.rest_kinds) or around.rest_kinds & kinds
    # masterSpec holds a whole spec: its members are the catalogue's own rows, and repeating them would never end.
    row_type = said.type or _type_of(descriptor)
    inner = replace(around, kinds=kinds, rest_kinds=rest_kinds)
    rows = rows_of(nested, inner) if nested is not None and nested.full_name not in around.messages else ()
    return Row(
        **{name: getattr(said, name) for name in _AS_SAID},
        minimum=said.minimum if said.HasField("minimum") else None,
        maximum=said.maximum if said.HasField("maximum") else None,
        step=said.step if said.HasField("step") else None,
        name=descriptor.name,
        number=descriptor.number,
        aliases=tuple(said.yaml_aliases),
        kinds=kinds,
        type=row_type,
        default=said.default_value if said.HasField("default_value") else None,
        max_length=said.max_length or of.LONGEST_TEXT,
        rest_also=tuple(said.rest_also),
        rest_kinds=rest_kinds,
        rest_words=tuple(said.rest_words),
        one_of=MappingProxyType({word.casefold(): word for word in said.one_of}),
        repeated=descriptor.is_repeated,
        policy=tuple(_policy(path, row_type, rest_kinds) for path in said.policy),
        words=_words(descriptor.enum_type) if descriptor.enum_type is not None else None,
        inside=rows,
        members=_members(said, rows),
    )


def _members(said: options_pb2.Field, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    if said.plain_items or said.type == of.WHOLE:
        return ()
    return tuple(row for row in rows if row.name not in {"label", "deleted"})


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


_EDITED: Final = frozenset({"canEdit", "required"})
_BOUNDED: Final = _EDITED | {"min", "max"}
# What a policy may say about a value, by its type alone; a path that takes other rules lists them.
_RULES_BY_TYPE: Final[Mapping[int, frozenset[str]]] = MappingProxyType(
    {
        of.BOOLEAN: _EDITED,
        of.STRING: _EDITED | {"options"},
        of.INTEGER: _BOUNDED | {"step"},
        of.NUMBER: _BOUNDED | {"step"},
        of.QUANTITY: _BOUNDED,
        of.ARRAY: _EDITED,
        of.ITEMIZED: frozenset({"canAdd", "locked"}),
    }
)


def _policy(path: options_pb2.PolicyPath, row_type: int, kinds: frozenset[Kind]) -> PolicyPath:
    return PolicyPath(
        path=path.path,
        rules=frozenset(_RULE_WORDS[rule] for rule in path.rules) or _RULES_BY_TYPE[row_type],
        kinds=frozenset(Kind(kind) for kind in path.kinds) or kinds,
        defaultable=path.defaultable if path.HasField("defaultable") else True,
    )


def _words(enum: EnumDescriptor) -> Words:
    by_word: dict[str, int] = {}
    by_number: dict[int, str] = {}
    spelled: list[str] = []
    for value in enum.values:
        if not value.GetOptions().HasExtension(options_pb2.word):
            continue
        said = value.GetOptions().Extensions[options_pb2.word]
        by_number[value.number] = said.word
        spelled += [said.word, *said.aliases]
        by_word |= dict.fromkeys((word.casefold() for word in (said.word, *said.aliases)), value.number)
    return Words(MappingProxyType(by_word), MappingProxyType(by_number), tuple(spelled))
