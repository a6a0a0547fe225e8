"""The CustomResourceDefinitions of the documents' kinds, so that a Kubernetes API server explains and checks them too.

`python -m muster_language.schemas.crds FOLDER` writes `deploy/crds`; a test and `make lint` hold the files there
equal to it.
Holds: every schema is structural; nothing but a pod template keeps unknown fields; maps and texts are bounded, so that
the API server can tell beforehand what a rule costs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from muster_language.catalogue import Row
from muster_language.catalogue import value_types as of
from muster_language.schemas.crd_rules import aliases_of, rules_of
from muster_language.schemas.shape import LABEL, Form, Node, colossal, document
from muster_language.spec import Kind

MOST_ITEMS: Final = 256
_LONGEST: Final = 65_536
_ENTRY: Final = 4_096  # characters of one entry of a list
_NUMBER: Final = 20  # characters of a number in quotes
_HEAD: Final = (
    "# Written from the catalogue by `python -m muster_language.schemas.crds deploy/crds`; not to be edited.\n"
)
_BYTES: Final = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|k)?$"
_CORES: Final = r"^[0-9]+(\.[0-9]+)?m?$"
_PORTION: Final = r"(0?\.(0[1-9]|[1-9][0-9]?)0*)"
_ABSOLUTE: Final = "/.*"

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """How Kubernetes calls a kind."""

    group: str
    version: str
    kind: str
    plural: str
    short: str

    @property
    def full(self) -> str:
        """The name of the definition itself."""
        return f"{self.plural}.{self.group}"


def definitions() -> dict[str, Schema]:
    """Every definition by the name of its file."""
    made = [(_names("run.ai", "v2alpha1", kind.document, short), document(kind)) for kind, short in _SHORT.items()]
    made.append((_names("batch.tensorstack.dev", "v1beta1", "ColossalAIJob", "caij"), colossal()))
    return {f"{names.full}.yaml": definition(names, root) for names, root in made}


_SHORT: Final = {Kind.WORKSPACE: "iw", Kind.TRAINING: "tw", Kind.DISTRIBUTED: "dw", Kind.INFERENCE: "infw"}


def _names(group: str, version: str, kind: str, short: str) -> Names:
    return Names(group, version, kind, f"{kind.lower()}s", short)


def definition(names: Names, root: Node) -> Schema:
    """The CustomResourceDefinition of a document."""
    version = {
        "name": names.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
        "schema": {"openAPIV3Schema": _root(root)},
    }
    called = {"plural": names.plural, "singular": names.kind.lower(), "kind": names.kind, "shortNames": [names.short]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.full},
        "spec": {
            "group": names.group,
            "names": {**called, "listKind": f"{names.kind}List"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _root(root: Node) -> Schema:
    plain = {"apiVersion", "kind", "metadata"}
    properties: Schema = {name: {"type": "object" if name == "metadata" else "string"} for name in sorted(plain)}
    properties |= {each.name: _schema(each) for each in root.children if each.name not in plain}
    return {"description": root.description, "type": "object", "required": ["spec"], "properties": properties}


def _schema(node: Node) -> Schema:
    return {"description": node.description, **_form(node)}


def _form(node: Node) -> Schema:
    match node.form:
        case Form.OBJECT:
            return _object(node)
        case Form.MAP:
            inner = node.child(LABEL)
            entry = _item(inner) if inner is not None else {"type": "string"}
            return {"type": "object", "maxProperties": MOST_ITEMS, "additionalProperties": entry}
        case Form.LIST:
            return {"type": "array", "minItems": 1, "maxItems": MOST_ITEMS, "items": _object(node)}
        case Form.TEMPLATE:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case _:
            return _scalar(node)


def _object(node: Node) -> Schema:
    taken = [each for each in node.children if each.row is None or not each.row.refused]
    properties: Schema = {}
    for each in taken:
        properties[each.name] = _schema(each)
        for other in aliases_of(each):
            properties[other] = {**properties[each.name], "description": f"Another name of {each.name}."}
    required = [each.name for each in taken if each.required and not aliases_of(each)]
    if [each.name for each in taken] == ["value"]:
        required = ["value"]  # `field: {}` says nothing, and a rule may take what is behind `value` for given
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    rules = rules_of(node)
    return {**found, "x-kubernetes-validations": rules} if rules else found


def _item(label: Node) -> Schema:
    """One item: a value, or `deleted: true`."""
    rule = {"rule": "has(self.value) || has(self.deleted)", "message": "the item has neither a value nor deleted: true"}
    found = _object(label)
    if label.child("deleted") is None:
        return {"description": label.description, **found}
    return {"description": label.description, **found, "x-kubernetes-validations": [rule]}


def _scalar(node: Node) -> Schema:
    row = node.row
    if row is None:
        return {"type": "string", "maxLength": _ENTRY}
    match node.form:
        case Form.BOOLEAN:
            return {"type": "boolean"}
        case Form.INTEGER:
            return _integer(row)
        case Form.NUMBER:
            return _portion(row)
        case Form.QUANTITY:
            return _quantity(row)
        case Form.ENUM:
            return {"type": "string", "enum": _words(row)}
        case Form.STRINGS:
            return _strings(node, row)
        case _:
            return _text(row)


def _integer(row: Row) -> Schema:
    """A whole number, bare or in quotes: the rule holds for both, the bounds tell people who read the schema."""
    low = int(row.minimum or 0)
    high = int(row.maximum) if row.maximum is not None else of.LARGEST_INTEGER
    rule = {"rule": f"int(self) >= {low} && int(self) <= {high}", "message": f"a whole number from {low} to {high}"}
    return {
        "x-kubernetes-int-or-string": True,
        "pattern": "^[0-9]+$",
        "maxLength": _NUMBER,
        "minimum": low,
        "maximum": high,
        "x-kubernetes-validations": [rule],
    }


def _portion(row: Row) -> Schema:
    """A portion; `gpu` says whole devices as well. A fraction has to be quoted: Kubernetes has no type for both."""
    whole = row.name == "gpu_portion_request"
    high = 64 if whole else 1
    low = 0 if whole else 1
    pattern = rf"^([0-9]{{1,2}}(\.0+)?|{_PORTION})$" if whole else rf"^(1(\.0+)?|{_PORTION})$"
    rule = {"rule": f"double(self) <= {high}.0", "message": row.description}
    return {
        "x-kubernetes-int-or-string": True,
        "pattern": pattern,
        "maxLength": _NUMBER,
        "minimum": low,
        "maximum": high,
        "x-kubernetes-validations": [rule],
    }


def _quantity(row: Row) -> Schema:
    rule = {
        "rule": "type(self) == int ? int(self) > 0 : string(self).matches('[1-9]')",
        "message": "a request of zero can never be meant: leave it out",
    }
    return {
        "x-kubernetes-int-or-string": True,
        "pattern": _CORES if row.quantity == "CPU" else _BYTES,
        "maxLength": 2 * _NUMBER,
        "x-kubernetes-validations": [rule],
    }


def _words(row: Row) -> list[str]:
    """The words and their other spellings: an API server compares letter by letter, Muster does not."""
    if row.words is None:
        return []
    known: dict[str, None] = {}
    for word in row.words.spelled:
        first = word[0].lower() if word[1:2].islower() else word[0]  # `always`, but never `mPI`
        known |= dict.fromkeys([word, first + word[1:], word[0].upper() + word[1:], word.lower(), word.upper()])
    return list(known)


def _strings(node: Node, row: Row) -> Schema:
    if node.name == "value":  # the wrapped form: one text with commas
        return {"type": "string", "maxLength": _ENTRY}
    entry = {"type": "string", "maxLength": _ENTRY}
    least = {"minItems": 1} if row.mandatory else {}
    return {"type": "array", **least, "maxItems": MOST_ITEMS, "items": entry}


def _text(row: Row) -> Schema:
    found: Schema = {"type": "string", "maxLength": min(row.max_length, _LONGEST)}
    if row.one_of:
        return {"type": "string", "enum": list(row.one_of.values())}
    if row.pattern == _ABSOLUTE:
        up = {"rule": "!self.contains('/../') && !self.endsWith('/..')", "message": "a path does not lead upwards"}
        return {**found, "pattern": "^/", "x-kubernetes-validations": [up]}
    if row.pattern:
        found["pattern"] = f"^({row.pattern})$"
    return found


def written(made: Schema) -> str:
    """A definition as its file has it."""
    text: str = yaml.dump(made, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)
    return _HEAD + text


class _Plain(yaml.CSafeDumper):
    """Writes the same schema twice rather than by reference: not every tool that reads these files knows anchors."""

    def ignore_aliases(self, _: Any) -> bool:
        """Nothing is written by reference."""
        return True


def main(folder: Path) -> None:
    """Writes the file of each definition into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in definitions().items():
        (folder / name).write_text(written(made), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
