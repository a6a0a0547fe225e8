"""The text of a policy document into a Policy, with every error of the document at its line.

Called when the service starts and whenever its file changes. Pure.
The form: `name`, `defaults` and `rules`, written by the REST paths of the fields (`compute: {gpuPortionRequest: ..}`),
and the same two once more under `workspace`, `training`, `distributed` or `inference` for that kind alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, Final

from muster_kernel.quantities import parse_bytes, parse_milli_cpu
from muster_language import Kind, Row, Violation, WorkloadSpec, catalogue, check_layer
from muster_language import value_types as of
from muster_language.bounds import refusal
from muster_language.catalogue import PolicyPath, nearest
from muster_language.loading import load
from muster_language.nodes import Mapping, Node, Scalar, Sequence
from muster_language.spec import set_kind
from muster_language.values import Refused, typed
from muster_policy.domain.policy import Bound, Policy, Ruled, Rules, Section

_KINDS: Final = {kind.word: kind for kind in Kind}
_BLOCKS: Final = ("defaults", "rules")
_WORDS: Final = ("required", "canEdit", "min", "max", "step", "options")
_LONGEST_NAME: Final = 63


class BadDocument(Exception):
    """The document is no policy. `violations`: everything that is wrong with it."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        super().__init__("\n".join(f"{each.line}:{each.column}: {each.path}: {each.text}" for each in violations))


def parse(text: str, *, name: str = "default") -> Policy:
    """The policy that the text says. `name`: what it is called where the text does not say. Raises BadDocument."""
    version = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    reader = _Document()
    documents = load(text)
    for each in documents:
        reader.found.extend(each.violations)
    roots = [each.root for each in documents if each.root is not None]
    if len(roots) > 1:
        reader.say("", roots[1], "a policy file has one document", "the first one")
    if roots and not (isinstance(roots[0], Scalar) and roots[0].null):
        reader.root(roots[0])
    if reader.found:
        raise BadDocument(reader.found)
    return Policy(reader.name or name, version, text, sections=reader.sections())


@dataclass(slots=True)
class _Said:
    """The defaults and rules of one section, before they are laid over each other."""

    defaults: list[Callable[[WorkloadSpec], None]] = field(default_factory=list)
    default_kinds: list[frozenset[Kind]] = field(default_factory=list)
    rules: dict[str, tuple[Row, PolicyPath, Rules]] = field(default_factory=dict)


@dataclass(slots=True)
class _Document:
    """Reads one document; None as a kind is the part that speaks to all kinds."""

    found: list[Violation] = field(default_factory=list)
    said: dict[Kind | None, _Said] = field(default_factory=dict)
    name: str = ""

    def say(self, path: str, node: Node, message: str, allowed: str = "") -> None:
        """An error at a node."""
        self.found.append(Violation(path, message, node.line, node.column, allowed))

    def root(self, node: Node) -> None:
        """Reads the whole document."""
        known = ["name", *_BLOCKS, *_KINDS]
        for key, value in self._entries(node, "", known):
            if key == "name":
                self._name(value)
            elif key in _KINDS:
                for block, inner in self._entries(value, key, list(_BLOCKS)):
                    self._block(block, inner, f"{key}.{block}", _KINDS[key])
            else:
                self._block(key, value, key, None)

    def sections(self) -> dict[Kind, Section]:
        """What holds for each kind: its own part over the part for all."""
        return {kind: self._section(kind) for kind in Kind}

    def _section(self, kind: Kind) -> Section:
        defaults = WorkloadSpec()
        rules: dict[str, tuple[Row, Rules]] = {}
        for part in (self.said.get(None), self.said.get(kind)):
            if part is None:
                continue
            for fill, kinds in zip(part.defaults, part.default_kinds, strict=True):
                if kind in kinds:
                    fill(defaults)
            for path, (row, where, said) in part.rules.items():
                if kind in where.kinds:
                    low = rules[path][1] if path in rules else Rules()
                    rules[path] = (row, said.over(low))
        return Section(defaults, tuple(Ruled(path, row, said) for path, (row, said) in rules.items()))

    def _name(self, node: Node) -> None:
        if isinstance(node, Scalar) and node.text and len(node.text) <= _LONGEST_NAME:
            self.name = node.text
        else:
            self.say("name", node, "the name of the policy is not a word", f"at most {_LONGEST_NAME} characters")

    def _entries(self, node: Node, path: str, known: list[str]) -> Iterator[tuple[str, Node]]:
        if not isinstance(node, Mapping):
            if not (isinstance(node, Scalar) and node.null):
                self.say(path, node, "a mapping belongs here", ", ".join(known))
            return
        for key, value in node.entries:
            if key.text in known:
                yield key.text, value
            else:
                near = nearest(key.text, known)
                hint = f"; did you mean {near}?" if near else ""
                self.say(_join(path, key.text), key, f"unknown{hint}", ", ".join(known[:20]))

    def _block(self, block: str, node: Node, path: str, kind: Kind | None) -> None:
        said = self.said.setdefault(kind, _Said())
        for row, where, key, value in self._paths(node, "", path):
            if kind is not None and kind not in where.kinds:
                self.say(_join(path, where.path), key, f"a {kind.document} does not take {where.path}")
            elif block == "rules":
                rules = self._rules(row, where, value, _join(path, where.path))
                said.rules[where.path] = (row, where, rules)
            elif not where.defaultable:
                self.say(_join(path, where.path), key, f"{where.path} takes no default")
            else:
                self._default(said, row, where, value, _join(path, where.path))

    def _paths(self, node: Node, inside: str, shown: str) -> Iterator[tuple[Row, PolicyPath, Scalar, Node]]:
        """Every policy path under a node, nested (`compute: {gpuPortionRequest: ..}`) or in one word with dots."""
        if not isinstance(node, Mapping):
            if not (isinstance(node, Scalar) and node.null):
                self.say(shown, node, "a mapping of paths belongs here", "such as compute: {gpuPortionRequest: ..}")
            return
        paths = catalogue().by_policy
        for key, value in node.entries:
            path = _join(inside, key.text)
            if path in paths:
                yield (*paths[path], key, value)
            elif any(each.startswith(f"{path}.") for each in paths):
                yield from self._paths(value, path, shown)
            else:
                near = nearest(path, list(paths))
                self.say(_join(shown, path), key, f"unknown path{f'; did you mean {near}?' if near else ''}")

    def _rules(self, row: Row, where: PolicyPath, node: Node, path: str) -> Rules:
        rules: dict[str, Any] = {}
        taken: list[str] = [word for word in _WORDS if word in where.rules]
        for word, value in self._entries(node, path, taken):
            here = _join(path, word)
            if word in {"required", "canEdit"}:
                flag = self._scalar(catalogue().by_name["preemptible"], value, here)
                if isinstance(flag, bool):
                    rules["required" if word == "required" else "can_edit"] = flag
            elif word == "options":
                rules |= self._options(row, value, here)
            else:
                bound = self._bound(row, value, here)
                if bound is not None:
                    rules[{"min": "minimum", "max": "maximum", "step": "step"}[word]] = bound
        low, high = rules.get("minimum"), rules.get("maximum")
        if low is not None and high is not None and low.amount > high.amount:
            self.say(path, node, f"min {low.text} is above max {high.text}", "min at most max")
        return Rules(**rules)

    def _bound(self, row: Row, node: Node, path: str) -> Bound | None:
        if not isinstance(node, Scalar) or node.null:
            self.say(path, node, "a number belongs here")
            return None
        try:
            amount = comparable(row, node.text)
        except (ValueError, ArithmeticError):
            self.say(path, node, f"{node.text} is not a value of {row.path}")
            return None
        if path.endswith(".step") and amount <= 0:
            self.say(path, node, f"{node.text} is no step", "a number above 0")
            return None
        return Bound(amount, node.text)

    def _options(self, row: Row, node: Node, path: str) -> dict[str, Any]:
        if not isinstance(node, Sequence) or not node.items:
            self.say(path, node, "a list of values belongs here", "[a, b]")
            return {}
        values, texts = [], []
        for index, item in enumerate(node.items):
            inner = item
            if isinstance(item, Mapping):  # the long form: {value: .., displayed: ..}
                inner = next((value for key, value in item.entries if key.text == "value"), item)
            value = self._scalar(row, inner, f"{path}.{index}")
            if value is not None and isinstance(inner, Scalar):
                values.append(value[0] if isinstance(value, list) else value)
                texts.append(inner.text)
        return {"options": tuple(values), "options_text": tuple(texts)}

    def _scalar(self, row: Row, node: Node, path: str) -> Any:
        if not isinstance(node, Scalar) or node.null:
            self.say(path, node, "a value belongs here")
            return None
        value = typed(row, node.text)
        refused = value if isinstance(value, Refused) else refusal(row, value)
        if refused is not None:
            self.say(path, node, refused.message, refused.allowed)
            return None
        return value

    def _default(self, said: _Said, row: Row, where: PolicyPath, node: Node, path: str) -> None:
        fill: Callable[[WorkloadSpec], None] | None = None
        if row.type == of.ITEMIZED:
            fill = self._items(row, node, path)
        elif row.type == of.ARRAY and isinstance(node, Sequence):
            fill = partial(_set, row, [item.text for item in node.items if isinstance(item, Scalar)])
        else:
            value = self._scalar(row, node, path)
            fill = None if value is None else partial(_set, row, value)
        if fill is None:
            return
        said.defaults.append(fill)
        said.default_kinds.append(where.kinds)
        self._try(fill, row, node, path)

    def _try(self, fill: Callable[[WorkloadSpec], None], row: Row, node: Node, path: str) -> None:
        """Fills an empty spec and checks it as a layer, so that a bad default is refused here and not at each use."""
        spec = WorkloadSpec()
        set_kind(spec, min(row.kinds))
        fill(spec)
        for each in check_layer(spec):
            self.say(path, node, each.message, each.allowed)

    def _items(self, row: Row, node: Node, path: str) -> Callable[[WorkloadSpec], None] | None:
        """The items of `instances: [{name: A, value: b}]`; the item key of the row names the label."""
        if not isinstance(node, Sequence):
            self.say(path, node, "a list of items belongs here", f"[{{{row.item_key}: ..}}]")
            return None
        items = [self._item(row, item, f"{path}.{index}") for index, item in enumerate(node.items)]
        return partial(_add, row, [item for item in items if item])

    def _item(self, row: Row, node: Node, path: str) -> dict[str, Any]:
        known = ["name", *([each.rest for each in row.members] or ["value"])]
        item: dict[str, Any] = {}
        for key, value in self._entries(node, path, known):
            member = row.member(key)
            read = self._scalar(member or catalogue().by_name["command"], value, f"{path}.{key}")
            if read is not None:
                item["label" if key == "name" else member.name if member else "value"] = read
        return item


def comparable(row: Row, text: str) -> Decimal | int:
    """The amount that bounds compare. Raises ValueError or ArithmeticError for a text that is none."""
    if row.type == of.QUANTITY:
        return parse_milli_cpu(text) if row.quantity == "CPU" else parse_bytes(text)
    amount = Decimal(text)
    if not amount.is_finite():
        raise ValueError(f"{text} is not a number")
    return amount


def _set(row: Row, value: Any, spec: WorkloadSpec) -> None:
    if row.type == of.ARRAY:
        target = getattr(spec, row.name)
        target.ClearField("values")
        target.values.extend(value)
    else:
        setattr(spec, row.name, value)


def _add(row: Row, items: list[dict[str, Any]], spec: WorkloadSpec) -> None:
    target = getattr(spec, row.name)
    for item in items:
        known = next((each for each in target if each.label == item.get("label")), None)
        if known is not None:
            known.Clear()
        added = known if known is not None else target.add()
        for name, value in item.items():
            setattr(added, name, value)


def _join(path: str, word: str) -> str:
    return f"{path}.{word}" if path else word
