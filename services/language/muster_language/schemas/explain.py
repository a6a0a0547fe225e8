"""`muster explain`: what a kind or a key of its documents means, out of the catalogue, in the shape that kubectl has.

Called by the client, offline. Holds: prints nothing that the catalogue does not say, and says something for each key.
"""

from __future__ import annotations

from textwrap import fill
from typing import Final

from muster_language.catalogue import COMPANIONS, Row, catalogue, either, nearest
from muster_language.catalogue import value_types as of
from muster_language.schemas.shape import (
    COLOSSAL_KIND,
    COLOSSAL_VERSION,
    LABEL,
    Form,
    Node,
    colossal,
    document,
    form_of,
)
from muster_language.spec import API_VERSION, Kind, kind_of_document

_WIDTH: Final = 80  # columns, those of the smallest terminal that people use
_FACT: Final = 14
_WRAPPERS: Final = ("value", "items", LABEL)
_FIELD: Final = 2  # `KIND.spec.FIELD` is that deep below the document


def explain(path: str) -> str:
    """The text for `KIND`, `KIND.spec` or `KIND.spec.FIELD[.MEMBER]`. Raises LookupError with a suggestion.

    `spec` and the words that only wrap (`value`, `items`, a label) may be left out.
    """
    first, *rest = [part for part in path.split(".") if part] or [""]
    root = _document(first)
    trail = _find(root, rest)
    return _page(root, trail)


def field_like(word: str) -> str | None:
    """The field of any kind that a word without a kind seems to mean; None where none is near."""
    return nearest(word, [row.yaml for row in catalogue().rows if row.yaml])


def _document(word: str) -> Node:
    if word.casefold() in {COLOSSAL_KIND.casefold(), "colossalai", "colossalaijobs"}:
        return colossal()
    kind = kind_of_document(word) or kind_of_document(word.removesuffix("s")) or _kind_by_word(word)
    if kind is not None:
        return document(kind)
    words = [*(each.document for each in Kind), COLOSSAL_KIND]
    near = nearest(word, words)
    hint = f"; did you mean {near}?" if near else f": {either(words)}"
    raise LookupError(f"{word or 'nothing'} is not a kind of workload{hint}")


def _kind_by_word(word: str) -> Kind | None:
    """The kind by its short word, or by the name of its documents without `Workload` (Interactive)."""
    said = word.casefold()
    return next(
        (
            kind
            for kind in Kind
            for short in (kind.word, kind.document.removesuffix("Workload").casefold())
            if said in {short, f"{short}s"}
        ),
        None,
    )


def _find(root: Node, words: list[str]) -> list[Node]:
    """The nodes from the document down to the one that is meant, both ends included."""
    spec = root.child("spec")
    trail = [root]
    if words and spec is not None and root.child(words[0]) is None:
        trail.append(spec)
    for word in words:
        # Whatever follows `items` in a path is a label of the document's own.
        steps = _step(trail[-1], LABEL if trail[-1].name == "items" else word)
        if not steps:
            raise LookupError(_no_such_key(root, trail, word))
        trail.extend(steps)
    return trail


def _step(node: Node, word: str) -> list[Node]:
    """The key below a node, through the wrappers where the word does not name one of them."""
    found = node.child(word)
    if found is not None:
        return [found]
    for wrapper in node.children:
        if wrapper.name in _WRAPPERS:
            deeper = _step(wrapper, word)
            if deeper:
                return [wrapper, *deeper]
    return []


def _known(node: Node) -> list[str]:
    """The keys that may follow a node, without the words that only wrap."""
    names = [each.name for each in node.children if each.name not in _WRAPPERS]
    inner = [name for each in node.children if each.name in _WRAPPERS for name in _known(each)]
    return [name for name in names + inner if name != "deleted"]


def _no_such_key(root: Node, trail: list[Node], word: str) -> str:
    at = trail[-1]
    known = _known(at)
    near = nearest(word, known)
    if at.name not in {root.name, "spec", "masterSpec"}:
        named = next((node.name for node in reversed(trail) if node.name not in _WRAPPERS), at.name)
        hint = f"did you mean {near}?" if near else f"it has {either(known)}" if known else "it has no members"
        return f"{named} has no member {word}; {hint}"
    row = catalogue().by_yaml.get(word)
    if row is not None and row.yaml not in known:
        takers = [each.document for each in sorted(row.kinds)]
        return f"{root.name} does not take {word}; {either(takers)} {'does' if len(takers) == 1 else 'do'}"
    hint = f"did you mean {near}?" if near else f"`muster explain {root.name.lower()}` lists what it takes"
    return f"{root.name} has no field {word}; {hint}"


def _page(root: Node, trail: list[Node]) -> str:
    node = trail[-1]
    version = COLOSSAL_VERSION if root.name == COLOSSAL_KIND else API_VERSION
    head = [f"KIND:        {root.name}", f"VERSION:     {version}"]
    if node is not root:
        place = ".".join([root.name.lower(), *(each.name for each in trail[1:])])
        head.append(f"RESOURCE:    {place} <{node.form}>")
    said = [*head, "", *_described(node.description), ""]
    notes = [_labelled(name, text) for name, text in facts(node.row)] if node.row is not None else []
    if notes:
        said += [*notes, ""]
    said += _spec_fields(node) if node is root or (len(trail) == _FIELD and _grouped(node)) else _fields(node)
    return "\n".join(said).rstrip() + "\n"


def _described(text: str) -> list[str]:
    return ["DESCRIPTION:", fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)]


def _labelled(name: str, text: str) -> str:
    return fill(
        text,
        _WIDTH,
        initial_indent=f"  {name + ':':<{_FACT}}",
        subsequent_indent=" " * (2 + _FACT),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _grouped(node: Node) -> bool:
    return node.name in {"spec", "masterSpec"}


def _spec_fields(node: Node) -> list[str]:
    """All keys of a document or of its spec, the spec's by group."""
    lines: list[str] = []
    spec = node.child("spec")
    if spec is not None:
        lines += ["FIELDS:", *_lines([each for each in node.children if each is not spec], "  "), ""]
    inside, prefix = (spec, "spec.") if spec is not None else (node, "")
    groups = dict.fromkeys(_group(each) for each in inside.children)
    width = max(len(each.name) for each in inside.children)
    for group in groups:
        lines.append(f"FIELDS ({group}):" if group else "FIELDS:")
        members = [each for each in inside.children if _group(each) == group]
        lines += [f"  {prefix}{each.name:<{width}}  <{_inner(each)}>{_default(each.row)}" for each in members]
        lines.append("")
    return lines


def _group(node: Node) -> str:
    return node.row.group if node.row is not None else ""


def _inner(node: Node) -> Form:
    """The form of what is behind `value:`, which is what a person wants to know of a field."""
    value = node.child("value")
    return value.form if value is not None else Form.MAP if node.child("items") is not None else node.form


def _fields(node: Node) -> list[str]:
    if not node.children:
        return []
    return ["FIELDS:", *_tree(node.children, "  ")]


def _tree(nodes: tuple[Node, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for each in nodes:
        lines += _lines([each], indent)
        if each.row is not None and each.name not in _WRAPPERS:
            inner = f"{indent}    "
            lines += fill(
                each.description, _WIDTH, initial_indent=inner, subsequent_indent=inner, break_on_hyphens=False
            ).splitlines()
        lines += _tree(each.children, f"{indent}  ")
    return lines


def _lines(nodes: list[Node], indent: str) -> list[str]:
    width = max((len(each.name) for each in nodes), default=0)
    return [f"{indent}{each.name:<{width}}  <{each.form}>{'  -required-' if each.required else ''}" for each in nodes]


def facts(row: Row) -> list[tuple[str, str]]:
    """What the catalogue says about a row beside its description: name and text, only what it does say."""
    long_text = row.type == of.STRING and row.max_length < of.LONGEST_TEXT
    said = [
        ("Also written", ", ".join(row.aliases)),
        ("REST", ", ".join([row.rest, *row.rest_also] if row.rest else row.rest_also)),
        ("Kinds", ", ".join(each.document for each in sorted(row.kinds)) if row.group else ""),
        ("Default", row.default or row.unset),
        ("Unit", row.unit),
        ("Range", _range(row)),
        ("Words", row.words.allowed if row.words else either(list(row.one_of.values())) if row.one_of else ""),
        ("Pattern", row.pattern),
        ("That is", row.allowed),
        ("At most", f"{row.max_length} characters" if long_text else ""),
        ("Excludes", ", ".join(_excludes(row))),
        ("Required", "yes" if row.mandatory else ""),
        ("Secret", "stored encrypted, shown as ***" if row.sensitive else ""),
        ("Changes", "taken by an inference service while it runs" if row.mutable else ""),
        ("Policy", "; ".join(f"{each.path}: {', '.join(sorted(each.all_rules))}" for each in row.policy)),
        ("Refused", row.refused),
        ("Only in", row.only),
        ("Decided", row.note),
        ("Since", row.since),
    ]
    return [(name, text) for name, text in said if text]


def _excludes(row: Row) -> list[str]:
    return [
        each.yaml for each in catalogue().rows if row.exclusive and each.exclusive == row.exclusive and each is not row
    ]


def type_word(row: Row) -> str:
    """The type of a row in a word."""
    return str(form_of(row))


def _default(row: Row | None) -> str:
    return f"  default {row.default}" if row is not None and row.default else ""


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
