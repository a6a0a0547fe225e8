"""What stands under `policy:` into a policy's body: defaults, rules, and what lower levels may not write.

Used by the reader of v2 documents; its limits by that of v1 documents too.
Paths are those of REST, nested or in one word with dots; a gang's stand under `worker` and `master`.
Holds: a path is given once in each block, whichever way it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster_language import Kind, check_layer
from muster_language.catalogue import either, nearest
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence
from muster_language.naming import REST
from muster_language.spec import set_kind
from muster_policy_engine.documents.defaults import Given, defaults, lay
from muster_policy_engine.documents.reading import NodeReader, is_null, join
from muster_policy_engine.documents.rules import RuleReader
from muster_policy_engine.places import Place, Side, places
from muster_policy_engine.policy import Body, Default, Reserved, Ruled

BLOCKS: Final = ("defaults", "rules", "reserved", "imposedAssets")
MOST_RULES: Final = 500
MOST_ITEMS: Final = 200
MOST_OPTIONS: Final = 1_000
_NOT_YET: Final = "assets are not built yet, so nothing can be imposed"
_SIDES: Final = (Side.WORKER, Side.MASTER)


class BodyReader:
    """Reads the body of a policy of one kind."""

    def __init__(self, reader: NodeReader, kind: Kind) -> None:
        self._reader = reader
        self._kind = kind
        self._places = places(kind)
        self._rules = RuleReader(reader, kind)

    def read(self, node: Node, path: str) -> Body:
        """The body; what is wrong is said to the reader."""
        given: list[Given] = []
        ruled: dict[str, Ruled] = {}
        reserved = Reserved()
        for block, inner in self._reader.entries(node, path, list(BLOCKS)):
            here = join(path, block)
            match block:
                case "defaults":
                    given = self._defaults(inner, here)
                case "rules":
                    ruled = dict(self._ruled(inner, here))
                case "reserved":
                    reserved = self._reserved(inner, here)
                case _ if not _imposes_nothing(inner):
                    self._reader.say(here, inner, _NOT_YET, "leave imposedAssets out")
        self.check_limits(node, path, [each.default for each in given], ruled)
        self._not_blocked(given, ruled, join(path, "defaults"))
        return Body(tuple(each.default for each in given), ruled, reserved)

    def _defaults(self, node: Node, path: str) -> list[Given]:
        before = len(self._reader.found)
        given: list[Given] = []
        first: dict[tuple[str, str], Node] = {}
        for place, key, value in self._in_places(node, path):
            here = join(path, place.path)
            if not place.defaultable:
                self._reader.say(here, key, f"{place.path} takes no default")
                continue
            for each in defaults(self._reader, place, value, here):
                known = first.setdefault((place.path, each.default.label), each.node)
                if known is each.node:
                    given.append(each)
                else:
                    said = f"the item {each.default.label!r} is given twice"
                    self._reader.say(here, each.node, said, f"the first one is in line {known.line}; keep one of them")
        if len(self._reader.found) == before:
            self._together(given, node, path)
        return given

    def _together(self, given: list[Given], node: Node, path: str) -> None:
        """What defaults that are right one by one contradict together, such as two of one exclusive group."""
        spec, _ = lay(each.default for each in given)
        set_kind(spec, self._kind)
        for each in check_layer(spec, REST):
            self._reader.say(path, node, each.message, each.allowed)

    def _ruled(self, node: Node, path: str) -> Iterator[tuple[str, Ruled]]:
        for place, _, value in self._in_places(node, path):
            rules = self._rules.rules(place, value, join(path, place.path))
            if rules.said:
                yield place.path, Ruled(place, rules)

    def _in_places(self, node: Node, shown: str) -> Iterator[tuple[Place, Scalar, Node]]:
        """Every place of a block, each of them once."""
        lines: dict[str, int] = {}
        for place, key, value in self._below(node, "", shown):
            if place.path in lines:
                allowed = f"the first one is in line {lines[place.path]}; keep one of them"
                self._reader.say(join(shown, place.path), key, f"{place.path} is given twice", allowed)
                continue
            lines[place.path] = key.line
            yield place, key, value

    def _below(self, node: Node, inside: str, shown: str) -> Iterator[tuple[Place, Scalar, Node]]:
        """Every place under a node, nested (`compute: {gpuPortionRequest: ..}`) or in one word with dots."""
        if not isinstance(node, Mapping):
            if not is_null(node):
                here = join(shown, inside) if inside else shown
                self._reader.say(here, node, "a mapping of paths belongs here", "compute: {gpuPortionRequest: ..}")
            return
        for key, value in node.entries:
            path = join(inside, key.text)
            if path in self._places:
                yield self._places[path], key, value
            elif any(each.startswith(f"{path}.") for each in self._places):
                yield from self._below(value, path, shown)
            else:
                hint = self._hint(path, key.text, inside)
                self._reader.say(join(shown, path), key, f'unknown field "{key.text[:60]}"{hint}')

    def _hint(self, path: str, word: str, inside: str) -> str:
        """What was most likely meant: a field of another side or kind, or one of nearly that name."""
        bare = path.removeprefix(Side.WORKER).removeprefix(Side.MASTER)
        sided = [f"{side}{bare}" for side in _SIDES if f"{side}{bare}" in self._places]
        if sided and bare == path:
            return f": a distributed policy has worker and master; did you mean {sided[0]}?"
        if bare != path and bare in self._places:
            return f"; did you mean {bare}?"
        others = [kind.word for kind in Kind if any(f"{side}{bare}" in places(kind) for side in Side)]
        if others and not sided:
            return f": only {either(others)} policies take it"
        start = f"{inside}." if inside else ""
        below = [each.removeprefix(start) for each in self._places if each.startswith(start)]
        near = nearest(word, [*below, *(each.partition(".")[0] for each in below)]) or nearest(path, list(self._places))
        return f"; did you mean {near}?" if near else ""

    def _reserved(self, node: Node, path: str) -> Reserved:
        entries = self._reader.entries(node, path, ["rules", "defaults"])
        said = {word: self._paths(inner, join(path, word)) for word, inner in entries}
        return Reserved(said.get("rules", ()), said.get("defaults", ()))

    def _paths(self, node: Node, path: str) -> tuple[str, ...]:
        if is_null(node):
            return ()
        if not isinstance(node, Sequence):
            self._reader.say(path, node, "a list of paths belongs here", "[security, nodePools]")
            return ()
        found: list[str] = []
        for index, each in enumerate(node.items):
            here = f"{path}.{index}"
            word = self._reader.word(each, here)
            if word and not any(one == word or one.startswith(f"{word}.") for one in self._places):
                self._reader.say(here, each, f'unknown field "{word[:60]}"{self._hint(word, word, "")}')
            elif word:
                found.append(word)
        return tuple(found)

    def check_limits(self, node: Node, path: str, given: list[Default], ruled: dict[str, Ruled]) -> None:
        """Refuses a body with too much in it."""
        rules = [each.rules for each in ruled.values()]
        counts = (
            ("rules", sum(len(each.said) for each in rules), MOST_RULES),
            ("default items", sum(each.place.instances for each in given), MOST_ITEMS),
            ("options", sum(len(each.options.values) for each in rules if each.options), MOST_OPTIONS),
        )
        for what, count, most in counts:
            if count > most:
                self._reader.say(path, node, f"the policy has {count} {what}", f"at most {most}")

    def _not_blocked(self, given: list[Given], ruled: dict[str, Ruled], path: str) -> None:
        """A blocked field takes no default, nor does a blocked member in a default item."""
        blocked = [each.place for each in ruled.values() if each.rules.blocked]
        for each in given:
            default = each.default
            members = {member.name for member, _ in default.members if member is not None}
            for place in blocked:
                inside = place.row is default.place.row and place.side is default.place.side
                if place is default.place or (inside and place.member is not None and place.member.name in members):
                    here = join(path, default.place.path)
                    self._reader.say(here, each.node, f"{place.path} is blocked, so it takes no default")


def _imposes_nothing(node: Node) -> bool:
    """Whether a list of assets, or one for each side of a gang, is empty."""
    match node:
        case Mapping(entries=entries):
            return all(_imposes_nothing(inner) for _, inner in entries)
        case Sequence(items=items):
            return not items
    return is_null(node)
