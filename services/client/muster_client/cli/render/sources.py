"""A written spec with the source of each value behind it, as a YAML comment.

    spec:
      image:
        value: ubuntu
      cpu:
        value: 500m  # policy research-trainings v7, department research

Called by `muster submit --dry-run`. Pure. A source names a field by the path that policies and REST use
(`compute.cpuCoreRequest`, `environmentVariables.HF_HOME`); the row of the field says what YAML calls it.
Holds: a commented text reads as the text without comments; what the user said has no comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from muster.policy.v1.policy_pb2 import PolicyRef, Source
from muster_client.cli.printable import one_line
from muster_client.cli.render.policies import scope_text
from muster_language import LayerName, Row, WorkloadSpec, catalogue
from muster_language.catalogue import value_types as of
from muster_language.documents.loading import load
from muster_language.documents.nodes import Mapping as MappingNode
from muster_language.documents.nodes import Node, Scalar, Sequence, entry

LEVELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LayerName.TENANT.value: "tenant",
        LayerName.CLUSTER.value: "cluster",
        LayerName.DEPARTMENT.value: "department",
        LayerName.PROJECT.value: "project",
    }
)
"""The level of a layer of policy, by the word for the layer."""
_SPEC: Final = "spec"
_MASTER: Final = "masterSpec."
_Place = tuple[str, Node, Node]
"""A path as sources have it, and the key and the value that it is written as."""


def commented(text: str, spec: WorkloadSpec, sources: Iterable[Source], policies: Mapping[str, PolicyRef]) -> str:
    """Return the text of a written spec with comments. policies: those that took part, by level."""
    documents = load(text)
    root = documents[0].root if documents else None
    if not isinstance(root, MappingNode):
        return text
    said = {each.path: _comment(each, policies) for each in sources}
    comments: dict[int, str] = {}
    lines = text.split("\n")
    ends = _ends(root, len(lines) - text.endswith("\n"))
    for path, key, value in _places(root, spec):
        # What a master does not say itself it has from the workers, and sources name it there.
        comment = said[path] if path in said else said.get(path.removeprefix(_MASTER), "")
        if comment:
            comments[ends[value.line] if isinstance(value, Scalar) else key.line] = comment
    return "\n".join(
        f"{line}  # {comments[number]}" if number in comments else line for number, line in enumerate(lines, 1)
    )


def _comment(source: Source, policies: Mapping[str, PolicyRef]) -> str:
    """Return where a value is from; empty: the user said it."""
    if source.layer == LayerName.WORKLOAD:
        return ""
    level = LEVELS.get(source.layer, "")
    if not source.policy:
        return one_line(source.layer)
    unit = policies[level].unit if level in policies else ""
    where = f", {scope_text(level, unit)}" if level else ""
    return one_line(f"policy {source.policy} v{source.version}{where}")


def _places(root: MappingNode, spec: WorkloadSpec) -> Iterator[_Place]:
    """Yield every value of the document."""
    yield from _fields(entry(root, _SPEC), spec, "")
    for row in catalogue().rows:
        if row.beside_spec and spec.HasField(row.name):  # type: ignore[arg-type]
            yield from _fields(entry(root, row.yaml), getattr(spec, row.name), f"{row.path}.")


def _fields(found: tuple[Scalar, Node] | None, spec: WorkloadSpec, prefix: str) -> Iterator[_Place]:
    if found is None or not isinstance(found[1], MappingNode):
        return
    for key, value in found[1].entries:
        row = _row(key.text, spec)
        if row is not None:
            yield from _field(row, key, value, f"{prefix}{row.path}")


def _row(word: str, spec: WorkloadSpec) -> Row | None:
    if word == "gpu" and not spec.HasField("gpu_portion_request"):
        return catalogue().by_name["gpu_devices_request"]  # none at all is written as `gpu: 0`
    return catalogue().by_yaml.get(word)


def _field(row: Row, key: Scalar, node: Node, path: str) -> Iterator[_Place]:
    """Yield the value of a field, or each item of it, or each member of an object."""
    if row.type == of.ITEMIZED:
        yield from _items(row, _inner(node, "items"), path)
        return
    value = node if row.bare else _inner(node, "value") or node
    if row.type == of.OBJECT:
        yield from _members(row, value, path)
    else:
        yield path, key, value


def _items(row: Row, node: Node | None, path: str) -> Iterator[_Place]:
    if not isinstance(node, MappingNode):
        return
    for label, item in node.entries:
        value = _inner(item, "value")
        # An item of one text has its source behind the text, one of several members behind its label.
        plain = isinstance(value, Scalar)
        yield f"{path}.{label.text}", label, value if plain and value is not None else item
        if not plain:
            yield from _members(row, value, f"{path}.{label.text}")


def _members(row: Row, node: Node | None, path: str) -> Iterator[_Place]:
    if not isinstance(node, MappingNode):
        return
    for key, value in node.entries:
        member = row.member(key.text)
        if member is not None:
            yield f"{path}.{member.path}", key, value


def _inner(node: Node, word: str) -> Node | None:
    found = entry(node, word) if isinstance(node, MappingNode) else None
    return found[1] if found is not None else None


def _ends(root: Node, last: int) -> dict[int, int]:
    """Return the last line of what begins at each line: a text of several lines ends before the next node."""
    begins = sorted({node.line for node in _all(root)})
    return {begin: end - 1 for begin, end in zip(begins, [*begins[1:], last + 1], strict=True)}


def _all(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case MappingNode():
            for key, value in node.entries:
                yield key
                yield from _all(value)
        case Sequence():
            for each in node.items:
                yield from _all(each)
        case _:
            pass
