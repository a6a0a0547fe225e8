"""What stands under `policy:` into a policy's body: defaults, rules, and what lower levels may not write.

Used by the reader of v2 documents.
Paths are those of REST, nested or in one word with dots; a gang's stand under `worker` and `master`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster_language import Kind
from muster_language.catalogue import nearest
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence
from muster_policy_engine.documents.defaults import defaults
from muster_policy_engine.documents.reading import NodeReader, join
from muster_policy_engine.documents.rules import RuleReader
from muster_policy_engine.places import Place, Side, places
from muster_policy_engine.policy import Body, Default, Reserved, Ruled

BLOCKS: Final = ("defaults", "rules", "reserved", "imposedAssets")
MOST_RULES: Final = 500
MOST_ITEMS: Final = 200
MOST_OPTIONS: Final = 1_000
_NOT_YET: Final = "assets are not built yet, so nothing can be imposed"


class BodyReader:
    """Reads the body of a policy of one kind."""

    def __init__(self, reader: NodeReader, kind: Kind) -> None:
        self._reader = reader
        self._kind = kind
        self._rules = RuleReader(reader, kind)

    def read(self, node: Node, path: str) -> Body:
        """The body; what is wrong is said to the reader."""
        given: list[Default] = []
        ruled: dict[str, Ruled] = {}
        reserved = Reserved()
        for block, inner in self._reader.entries(node, path, list(BLOCKS)):
            here = join(path, block)
            match block:
                case "defaults":
                    given = list(self._defaults(inner, here))
                case "rules":
                    ruled = dict(self._ruled(inner, here))
                case "reserved":
                    reserved = self._reserved(inner, here)
                case _ if not (isinstance(inner, Scalar) and inner.null):
                    self._reader.say(here, inner, _NOT_YET, "leave imposedAssets out")
        self._bounded(node, path, given, ruled)
        return Body(_last(given), ruled, reserved)

    def _defaults(self, node: Node, path: str) -> Iterator[Default]:
        for place, key, value in self._places(node, "", path):
            here = join(path, place.path)
            if not place.defaultable:
                self._reader.say(here, key, f"{place.path} takes no default")
            else:
                yield from defaults(self._reader, place, value, here)

    def _ruled(self, node: Node, path: str) -> Iterator[tuple[str, Ruled]]:
        for place, _, value in self._places(node, "", path):
            rules = self._rules.rules(place, value, join(path, place.path))
            if rules.said:
                yield place.path, Ruled(place, rules)

    def _places(self, node: Node, inside: str, shown: str) -> Iterator[tuple[Place, Scalar, Node]]:
        """Every place under a node, nested (`compute: {gpuPortionRequest: ..}`) or in one word with dots."""
        if not isinstance(node, Mapping):
            if not (isinstance(node, Scalar) and node.null):
                self._reader.say(shown, node, "a mapping of paths belongs here", "compute: {gpuPortionRequest: ..}")
            return
        known = places(self._kind)
        for key, value in node.entries:
            path = join(inside, key.text)
            if path in known:
                yield known[path], key, value
            elif any(each.startswith(f"{path}.") for each in known):
                yield from self._places(value, path, shown)
            else:
                self._unknown(path, key, shown)

    def _unknown(self, path: str, key: Scalar, shown: str) -> None:
        known = places(self._kind)
        sided = next((f"{side}{path}" for side in (Side.WORKER, Side.MASTER) if f"{side}{path}" in known), "")
        elsewhere = [kind.word for kind in Kind if kind is not self._kind and path in places(kind)]
        near = nearest(path, list(known))
        if sided:
            hint = f": a distributed policy has worker and master; did you mean {sided}?"
        elif elsewhere:
            hint = f": a {self._kind.word} policy does not take it, {' and '.join(elsewhere)} do"
        else:
            hint = f"; did you mean {near}?" if near else ""
        self._reader.say(join(shown, path), key, f'unknown field "{key.text[:60]}"{hint}')

    def _reserved(self, node: Node, path: str) -> Reserved:
        said = {word: self._paths(inner, join(path, word)) for word, inner in self._entries(node, path)}
        return Reserved(said.get("rules", ()), said.get("defaults", ()))

    def _entries(self, node: Node, path: str) -> Iterator[tuple[str, Node]]:
        return self._reader.entries(node, path, ["rules", "defaults"])

    def _paths(self, node: Node, path: str) -> tuple[str, ...]:
        if not isinstance(node, Sequence):
            self._reader.say(path, node, "a list of paths belongs here", "[security, nodePools]")
            return ()
        known = places(self._kind)
        found: list[str] = []
        for index, each in enumerate(node.items):
            here = f"{path}.{index}"
            word = self._reader.word(each, here)
            if word and not any(one == word or one.startswith(f"{word}.") for one in known):
                self._reader.say(here, each, f'unknown field "{word[:60]}"')
            elif word:
                found.append(word)
        return tuple(found)

    def _bounded(self, node: Node, path: str, given: list[Default], ruled: dict[str, Ruled]) -> None:
        counts = (
            ("rules", len(ruled), MOST_RULES),
            ("default items", sum(each.place.instances for each in given), MOST_ITEMS),
            ("options", sum(len(each.rules.options.values) for each in ruled.values() if each.rules.options), MOST_OPTIONS),
        )
        for what, count, most in counts:
            if count > most:
                self._reader.say(path, node, f"the policy has {count} {what}", f"at most {most}")
        for each in given:
            if (rule := ruled.get(each.place.path)) is not None and rule.rules.blocked:
                self._reader.say(path, node, f"{each.place.path} is blocked, so it takes no default")


def _last(given: list[Default]) -> tuple[Default, ...]:
    """One default for each place and label: the last one, at the first place."""
    return tuple({(each.place.path, each.label): each for each in given}.values())
