"""The text of a policy document into a Policy, with every error of the document at its line.

Called when the service starts and whenever its file changes. Pure.
The form: `name`, `defaults` and `rules`, written by the REST paths of the fields (`compute: {gpuPortionRequest: ..}`),
items by `instances` and what every item has by `attributes`; the same two blocks once more under `workspace`,
`training`, `distributed` or `inference` for that kind alone, a gang's by `worker.` and `master.` where they differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from muster_language import Kind, Layer, LayerName, Violation, WorkloadSpec, combine
from muster_language.catalogue import nearest
from muster_language.documents.loading import load
from muster_language.documents.nodes import Mapping, Node, Scalar
from muster_policy_engine.documents.defaults import Default, default
from muster_policy_engine.places import Place, places
from muster_policy_engine.policy import Policy, Ruled, Rules, Section
from muster_policy_engine.documents.reading import NodeReader, join

_KINDS: Final = {kind.word: kind for kind in Kind}
_BLOCKS: Final = ("defaults", "rules")
_WORDS: Final = ("required", "canEdit", "min", "max", "step", "options", "canAdd", "locked")
_FLAGS: Final = {"required": "required", "canEdit": "can_edit", "canAdd": "can_add"}
_BOUNDS: Final = {"min": "minimum", "max": "maximum", "step": "step"}
_LONGEST_NAME: Final = 63


class BadDocument(Exception):
    """The document is no policy. `violations`: everything that is wrong with it."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        super().__init__("\n".join(f"{each.line}:{each.column}: {each.path}: {each.text}" for each in violations))


def parse(text: str, *, name: str = "default") -> Policy:
    """The policy that the text says. `name`: what it is called where the text does not say. Raises BadDocument."""
    version = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    document = _Document()
    loaded = load(text)
    for each in loaded:
        document.reader.found.extend(each.violations)
    roots = [each.root for each in loaded if each.root is not None]
    if len(roots) > 1:
        document.reader.say("", roots[1], "a policy file has one document", "the first one")
    if roots and not (isinstance(roots[0], Scalar) and roots[0].null):
        document.root(roots[0])
    if document.reader.found:
        raise BadDocument(document.reader.found)
    return Policy(document.name or name, version, text, sections=document.sections())


@dataclass(slots=True)
class _Said:
    """The defaults and rules of one part, before they are laid over each other."""

    defaults: list[Default] = field(default_factory=list)
    rules: dict[str, Ruled] = field(default_factory=dict)


@dataclass(slots=True)
class _Document:
    """Reads one document; None as a kind is the part that speaks to all kinds."""

    reader: NodeReader = field(default_factory=NodeReader)
    said: dict[Kind | None, _Said] = field(default_factory=dict)
    name: str = ""

    def root(self, node: Node) -> None:
        """Reads the whole document."""
        known = ["name", *_BLOCKS, *_KINDS]
        for key, value in self.reader.entries(node, "", known):
            if key == "name":
                self._name(value)
            elif key in _KINDS:
                for block, inner in self.reader.entries(value, key, list(_BLOCKS)):
                    self._block(block, inner, f"{key}.{block}", _KINDS[key])
            else:
                self._block(key, value, key, None)

    def sections(self) -> dict[Kind, Section]:
        """What holds for each kind: its own part over the part for all."""
        return {kind: _section(kind, [self.said.get(None), self.said.get(kind)]) for kind in Kind}

    def _name(self, node: Node) -> None:
        if isinstance(node, Scalar) and node.text and len(node.text) <= _LONGEST_NAME:
            self.name = node.text
        else:
            allowed = f"at most {_LONGEST_NAME} characters"
            self.reader.say("name", node, "the name of the policy is not a word", allowed)

    def _block(self, block: str, node: Node, path: str, kind: Kind | None) -> None:
        said = self.said.setdefault(kind, _Said())
        for place, key, value in self._places(node, "", path):
            here = join(path, place.path)
            if kind is not None and kind not in place.kinds:
                self.reader.say(here, key, f"a {kind.document} does not take {place.path}")
            elif block == "rules":
                said.rules[place.path] = Ruled(place, self._rules(place, value, here))
            elif not place.defaultable:
                self.reader.say(here, key, f"{place.path} takes no default")
            elif (each := default(self.reader, place, value, here)) is not None:
                said.defaults.append(each)

    def _places(self, node: Node, inside: str, shown: str) -> Iterator[tuple[Place, Scalar, Node]]:
        """Every place under a node, nested (`compute: {gpuPortionRequest: ..}`) or in one word with dots."""
        if not isinstance(node, Mapping):
            if not (isinstance(node, Scalar) and node.null):
                allowed = "such as compute: {gpuPortionRequest: ..}"
                self.reader.say(shown, node, "a mapping of paths belongs here", allowed)
            return
        known = places()
        for key, value in node.entries:
            path = join(inside, key.text)
            if path in known:
                yield known[path], key, value
            elif any(each.startswith(f"{path}.") for each in known):
                yield from self._places(value, path, shown)
            else:
                near = nearest(path, list(known))
                hint = f"; did you mean {near}?" if near else ""
                self.reader.say(join(shown, path), key, f"unknown path{hint}")

    def _rules(self, place: Place, node: Node, path: str) -> Rules:
        rules: dict[str, Any] = {}
        taken: list[str] = [word for word in _WORDS if word in place.rules]
        for word, value in self.reader.entries(node, path, taken):
            here = join(path, word)
            if word in _FLAGS:
                rules[_FLAGS[word]] = self.reader.flag(value, here)
            elif word == "options":
                rules[word] = self.reader.options(place.value, value, here)
            elif word == "locked":
                rules[word] = self.reader.labels(value, here)
            else:
                rules[_BOUNDS[word]] = self.reader.bound(place.value, value, here)
        low, high = rules.get("minimum"), rules.get("maximum")
        if low is not None and high is not None and low.amount > high.amount:
            self.reader.say(path, node, f"min {low.text} is above max {high.text}", "min at most max")
        return Rules(**rules)


def _section(kind: Kind, parts: list[_Said | None]) -> Section:
    defaults, attributes = WorkloadSpec(), WorkloadSpec()
    rules: dict[str, Ruled] = {}
    for part in parts:
        if part is None:
            continue
        for said in part.defaults:
            if kind in said.place.kinds:
                said.fill(attributes if said.attribute else defaults)
        for path, ruled in part.rules.items():
            if kind in ruled.place.kinds:
                low = rules[path].rules if path in rules else Rules()
                rules[path] = Ruled(ruled.place, ruled.rules.over(low))
    baseline = combine([Layer(LayerName.TENANT, defaults, attributes)])
    return Section(defaults, attributes, baseline, tuple(rules.values()))
