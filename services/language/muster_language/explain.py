"""`muster explain`: what a kind or a field of it means, out of the catalogue, in the shape that kubectl users know.

Called by the client, offline. Holds: prints nothing that the catalogue does not say.
"""

from __future__ import annotations

from textwrap import fill
from typing import Final

from muster_language import value_types as of
from muster_language.catalogue import COMPANIONS, Row, catalogue, either, nearest
from muster_language.spec import API_VERSION, Kind, kind_of_document

_WIDTH: Final = 80  # columns, those of the smallest terminal that people use
_LABEL: Final = 14
_TYPE_WORDS: Final[dict[int, str]] = {
    of.BOOLEAN: "boolean",
    of.STRING: "string",
    of.INTEGER: "integer",
    of.NUMBER: "number",
    of.QUANTITY: "quantity",
    of.ARRAY: "list of strings",
    of.ITEMIZED: "items by label",
    of.OBJECT: "object",
}
_KIND_TEXTS: Final = {
    Kind.WORKSPACE: "A notebook or another interactive process that keeps its place until it is stopped.",
    Kind.TRAINING: "One process that runs to its end.",
    Kind.DISTRIBUTED: "A gang of replicas that start together: MPI with a launcher, or PyTorch with torchrun.",
    Kind.INFERENCE: "A service: replicas of a server behind one address.",
}


def explain(path: str) -> str:
    """The text for `KIND`, `KIND.spec` or `KIND.spec.FIELD[.MEMBER]`. Raises LookupError with a suggestion."""
    first, *rest = [part for part in path.split(".") if part] or [""]
    kind = kind_of_document(first) or _kind_by_word(first)
    if kind is None:
        words = [each.document for each in Kind]
        near = nearest(first, words)
        hint = f"; did you mean {near}?" if near else ""
        raise LookupError(f"{first or 'nothing'} is not a kind of workload{hint or f': {either(words)}'}")
    if not rest or rest == ["spec"]:
        return _kind(kind, inside=bool(rest))
    return _field(kind, rest)


def _kind_by_word(word: str) -> Kind | None:
    return next((kind for kind in Kind if word.casefold() in {kind.word, f"{kind.word}s"}), None)


def _head(kind: Kind) -> list[str]:
    return [f"KIND:        {kind.document}", f"VERSION:     {API_VERSION}"]


def _described(text: str) -> list[str]:
    return ["DESCRIPTION:", fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)]


def _labelled(name: str, text: str) -> str:
    return fill(
        text,
        _WIDTH,
        initial_indent=f"  {name + ':':<{_LABEL}}",
        subsequent_indent=" " * (2 + _LABEL),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _kind(kind: Kind, *, inside: bool) -> str:
    lines = [*_head(kind), "", *_described(_KIND_TEXTS[kind]), ""]
    if not inside:
        lines += ["FIELDS:", "  metadata.name       <string>", "  metadata.namespace  <string>  runai-<project>", ""]
    groups = dict.fromkeys(row.group for row in catalogue().of_kind(kind))
    rows = [row for row in catalogue().of_kind(kind) if row.yaml]
    width = max(len(_place(row)) for row in rows)
    for group in groups:
        lines.append(f"FIELDS ({group}):")
        for row in rows:
            if row.group == group:
                lines.append(f"  {_place(row):<{width}}  <{type_word(row)}>{_default(row)}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _place(row: Row) -> str:
    return row.yaml if row.beside_spec else f"spec.{row.yaml}"


def _field(kind: Kind, rest: list[str]) -> str:
    word = rest[1] if rest[0] == "spec" and len(rest) > 1 else rest[0]
    deeper = rest[2:] if rest[0] == "spec" else rest[1:]
    row = catalogue().by_yaml.get(word)
    if row is None or kind not in row.kinds:
        raise LookupError(_no_such_field(kind, word, row))
    deeper = [part for part in deeper if part not in {"value", "items"}]
    if not deeper:
        return _row(kind, row, f"{kind.document.lower()}.{_place(row)}")
    member = row.member(deeper[0])
    if member is None or len(deeper) > 1:
        known = [each.yaml for each in row.members]
        near = nearest(deeper[0], known)
        hint = f"did you mean {near}?" if near else f"it has {either(known)}" if known else "it has no members"
        raise LookupError(f"{row.yaml} has no member {deeper[0]}; {hint}")
    return _row(kind, member, f"{kind.document.lower()}.{_place(row)}.{member.yaml}")


def _no_such_field(kind: Kind, word: str, row: Row | None) -> str:
    if row is not None:
        return f"a {kind.document} does not take {word}; {either([each.document for each in sorted(row.kinds)])} does"
    near = nearest(word, [each.yaml for each in catalogue().of_kind(kind)])
    hint = f"did you mean {near}?" if near else f"`muster explain {kind.document.lower()}` lists what it takes"
    return f"{kind.document} has no field {word}; {hint}"


def _row(kind: Kind, row: Row, resource: str) -> str:
    lines = [*_head(kind), f"RESOURCE:    {resource} <{type_word(row)}>", "", *_described(row.description), ""]
    lines += [_labelled(name, text) for name, text in facts(row)]
    lines += ["", "FIELDS:", *_fields(row)]
    return "\n".join(lines) + "\n"


def facts(row: Row) -> list[tuple[str, str]]:
    """What the catalogue says about a row beside its description: name and text, only what it does say."""
    said = [
        ("Also written", ", ".join(row.aliases)),
        ("REST", row.rest),
        ("Kinds", ", ".join(each.document for each in sorted(row.kinds))),
        ("Default", row.default or ""),
        ("Unit", row.unit),
        ("Range", _range(row)),
        ("Words", row.words.allowed if row.words else ""),
        ("Pattern", row.pattern),
        (
            "At most",
            f"{row.max_length} characters" if row.type == of.STRING and row.max_length < of.LONGEST_TEXT else "",
        ),
        ("Excludes", ", ".join(_excludes(row))),
        ("Changes", "taken by a running workload" if row.mutable else ""),
        ("Policy", "; ".join(f"{each.path}: {', '.join(sorted(each.rules))}" for each in row.policy)),
        ("Since", row.since),
    ]
    return [(name, text) for name, text in said if text]


def _fields(row: Row) -> list[str]:
    if row.type == of.ITEMIZED:
        inner = [f"        {each.yaml}  <{type_word(each)}>" for each in row.members]
        value = ["      value  <object>", *inner] if inner else ["      value  <string>"]
        return ["  items", "    LABEL", *value, "      deleted  <boolean>  takes an inherited item out"]
    if row.beside_spec:
        return ["  the same fields as spec"]
    if row.members:
        return ["  value  <object>", *(f"    {each.yaml}  <{type_word(each)}>" for each in row.members)]
    return [f"  {'(bare)' if row.bare else 'value'}  <{type_word(row)}>"]


def _excludes(row: Row) -> list[str]:
    return [
        each.yaml for each in catalogue().rows if row.exclusive and each.exclusive == row.exclusive and each is not row
    ]


def type_word(row: Row) -> str:
    """The type of a row in a word."""
    return "enum" if row.words else _TYPE_WORDS[row.type]


def _default(row: Row) -> str:
    return f"  default {row.default}" if row.default else ""


def _range(row: Row) -> str:
    low = f"from {row.minimum:.15g}" if row.minimum is not None else ""
    high = f"to {row.maximum:.15g}" if row.maximum is not None else ""
    step = f"in steps of {row.step:g}" if row.step else ""
    said = " ".join(part for part in (low, high, step) if part)
    companion = next((name for name, target in COMPANIONS.items() if target == row.yaml), None)
    if companion is None:
        return said
    # The row's own bounds are those of a portion; as a whole number the field says how many devices.
    return f"0, or a portion {said}, or a whole number to {catalogue().by_name[companion].maximum or 0:g}"
