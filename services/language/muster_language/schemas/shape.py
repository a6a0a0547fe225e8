"""Every key that a document of a kind may have, as a tree: what `explain` prints and what the CRDs are made of.

Made from the catalogue's rows, so that both show the wrappers (`value:`, `items:`, `deleted:`) as the reader takes
them. Holds: each node has a description; nodes that are only wrapping borrow that of the field around them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Final

from muster_language.catalogue import Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.spec import API_VERSION, Kind

LABEL: Final = "LABEL"
COLOSSAL_KIND: Final = "ColossalAIJob"
COLOSSAL_VERSION: Final = "batch.tensorstack.dev/v1beta1"
MASTER: Final = "masterSpec"
KIND_TEXTS: Final = {
    Kind.WORKSPACE: "A notebook or another interactive process that keeps its place until it is stopped.",
    Kind.TRAINING: "One process that runs to its end, or several that run to theirs independently of each other.",
    Kind.DISTRIBUTED: "A gang of replicas that start together: MPI with a launcher, or workers that know their peers.",
    Kind.INFERENCE: "A service: replicas of a server behind one address, as many as its load asks for.",
}
_COLOSSAL_TEXT: Final = "A ColossalAI training: a launcher, and workers on each of which torchrun starts the script."


class Form(StrEnum):
    """What a node is: the words are those that `explain` prints."""

    OBJECT = "Object"
    MAP = "Object by label"
    LIST = "list of objects"
    STRINGS = "list of strings"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    QUANTITY = "quantity"
    ENUM = "enum"
    TEMPLATE = "Kubernetes PodTemplateSpec"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One key. `row` is the catalogue's for the value that stands here, None where the key only wraps others."""

    name: str
    form: Form
    description: str
    row: Row | None = None
    children: tuple[Node, ...] = ()
    required: bool = False

    def child(self, name: str) -> Node | None:
        """The key below this one; an alias of it means the same."""
        for each in self.children:
            if each.name == name or (each.row is not None and each.name == each.row.yaml and name in each.row.aliases):
                return each
        return None


_FORMS: Final[dict[int, Form]] = {
    of.BOOLEAN: Form.BOOLEAN,
    of.STRING: Form.STRING,
    of.INTEGER: Form.INTEGER,
    of.NUMBER: Form.NUMBER,
    of.QUANTITY: Form.QUANTITY,
    of.ARRAY: Form.STRINGS,
    of.ITEMIZED: Form.MAP,
    of.OBJECT: Form.OBJECT,
    of.WHOLE: Form.OBJECT,
}


def form_of(row: Row) -> Form:
    """The form of a row's value."""
    return Form.ENUM if row.words is not None else _FORMS[row.type]


@cache
def document(kind: Kind) -> Node:
    """The tree of a kind's document."""
    rows = [row for row in catalogue().of_kind(kind) if row.yaml and not row.beside_spec]
    spec = Node(
        "spec", Form.OBJECT, f"What the workload runs and is given. {KIND_TEXTS[kind]}", None, _fields(rows, kind)
    )
    parts = [*_head(kind.document, API_VERSION), spec]
    for row in catalogue().of_kind(kind):
        if row.beside_spec:
            inner = _fields([each for each in rows if each.for_roles or each.own], kind)
            parts.append(Node(row.yaml, Form.OBJECT, row.description, row, inner))
    return Node(kind.document, Form.OBJECT, KIND_TEXTS[kind], None, tuple(parts))


@cache
def colossal() -> Node:
    """The tree of a ColossalAIJob."""
    row = next(row for row in catalogue().whole if row.name == "colossal")
    spec = Node("spec", Form.OBJECT, f"What the job runs. {row.description}", row, _plain(row.inside), required=True)
    return Node(COLOSSAL_KIND, Form.OBJECT, _COLOSSAL_TEXT, None, (*_head(COLOSSAL_KIND, COLOSSAL_VERSION), spec))


def _head(kind: str, version: str) -> tuple[Node, ...]:
    name = Node(
        "name", Form.STRING, "What the object is called: the workload's name where the document gives no other."
    )
    space = Node(
        "namespace", Form.STRING, "The project: its own namespace, which is runai-PROJECT unless another was asked for."
    )
    marks = [
        Node(
            word,
            Form.MAP,
            f"The object's own {word}, as Kubernetes takes them; those of the workload stand in its spec.",
        )
        for word in ("labels", "annotations")
    ]
    return (
        Node("apiVersion", Form.STRING, f"The version of the language: {version}.", required=True),
        Node("kind", Form.STRING, f"The kind of workload: {kind}.", required=True),
        Node("metadata", Form.OBJECT, "What the object is called and where it belongs.", None, (name, space, *marks)),
    )


def _fields(rows: list[Row], kind: Kind) -> tuple[Node, ...]:
    older = _older_places(rows) if kind is Kind.DISTRIBUTED else ()
    return (*(_field(row) for row in rows), *older)


def _older_places(rows: Iterable[Row]) -> tuple[Node, ...]:
    """The objects in which some fields used to stand (`mpiJob.slotsPerWorker`): aliases with a dot."""
    found: dict[str, list[Node]] = {}
    for row in rows:
        for place, _, word in (alias.partition(".") for alias in row.aliases if "." in alias):
            found.setdefault(place, []).append(_value(row, word))
    return tuple(_older(place, tuple(nodes)) for place, nodes in found.items())


def _older(place: str, nodes: tuple[Node, ...]) -> Node:
    """Such an object, whose members may stand behind `value:` as well."""
    names = ", ".join(node.name for node in nodes)
    wrapped = Node("value", Form.OBJECT, f"The members: {names}.", None, nodes)
    told = f"An older place for {names}, which may stand directly in spec as well."
    return Node(place, Form.OBJECT, told, None, (wrapped, *nodes))


def _field(row: Row) -> Node:
    if row.bare:
        return _value(row, row.yaml)
    if row.one_of:
        entry = replace(_value(row, "capability"), form=Form.STRING)
        return Node(row.yaml, Form.OBJECT, row.description, row, (_items(row, (entry,)),))
    if row.type == of.ITEMIZED:
        inner = None if row.plain_items else _plain(row.members)
        return Node(row.yaml, Form.OBJECT, row.description, row, (_items(row, inner),))
    return Node(row.yaml, Form.OBJECT, row.description, row, (_value(row, "value"),))


def _items(row: Row, inner: tuple[Node, ...] | None) -> Node:
    """`items:` with one item under LABEL; `inner` are the members of an item, None where an item is one text."""
    by_name = {each.name: each for each in row.inside}
    what = f"The items of {row.yaml}, each under a label of its own."
    if inner is None:
        value = _value(by_name["value"], "value")
    else:
        label = by_name.get("label")
        aliases = tuple(replace(_value(label, alias), required=False) for alias in label.aliases) if label else ()
        value = Node("value", Form.OBJECT, f"One item of {row.yaml}.", None, (*aliases, *inner))
    gone = _value(by_name["deleted"], "deleted") if "deleted" in by_name else None
    item = Node(
        LABEL,
        Form.OBJECT,
        f"One item of {row.yaml}, under its label.",
        None,
        (value, gone) if gone is not None else (value,),
    )
    return Node("items", Form.MAP, what, None, (item,))


def _plain(rows: Iterable[Row]) -> tuple[Node, ...]:
    return tuple(_value(row, row.yaml) for row in rows if row.yaml)


def _value(row: Row, name: str) -> Node:
    """A key at which the value itself stands, without wrapping."""
    children = _plain(row.members) if row.type == of.OBJECT else ()
    form = form_of(row)
    if row.type == of.OBJECT and not row.inside:
        form = Form.TEMPLATE
    elif row.type == of.OBJECT and row.repeated:
        form = Form.LIST
    return Node(name, form, row.description, row, children, required=row.mandatory)
