"""Which operation a request means: by path, then by method.

Called by the edge. Holds: a literal segment wins over a parameter, so that `/workloads/count` is never an id; two
operations never share a method and a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster_submission.rest.errors import NoSuchRoute, WrongMethod
from muster_submission.rest.operation import Operation


@dataclass(slots=True)
class _Node:
    """A segment of paths: what follows it, and what ends here."""

    literal: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    methods: dict[str, Operation] = field(default_factory=dict)


class Router:
    """Finds operations."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._root = _Node()
        for one in operations:
            methods = self._place(one.path).methods
            if one.method in methods:
                raise ValueError(f"{one.method} {one.path} is there twice: {methods[one.method].name}, {one.name}")
            methods[one.method] = one

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        """The operation and the values of its path's parameters. Raises NoSuchRoute and WrongMethod."""
        segments = path.strip("/").split("/")
        methods = _walk(self._root, segments, 0)
        if methods is None:
            raise NoSuchRoute(f"nothing has the path {path[:200]!r}; /openapi.json lists what there is")
        asked = "GET" if method == "HEAD" and "HEAD" not in methods else method
        if asked not in methods:
            raise WrongMethod(method[:20], path[:200], methods)
        operation = methods[asked]
        return operation, _values(operation, segments)

    def _place(self, path: str) -> _Node:
        node = self._root
        for segment in path.strip("/").split("/"):
            if segment.startswith("{"):
                node.parameter = node = node.parameter or _Node()
            else:
                node = node.literal.setdefault(segment, _Node())
        return node


def _walk(node: _Node, segments: Sequence[str], at: int) -> dict[str, Operation] | None:
    if at == len(segments):
        return node.methods or None
    follows = node.literal.get(segments[at])
    if follows is not None and (found := _walk(follows, segments, at + 1)) is not None:
        return found
    if node.parameter is not None and segments[at]:
        return _walk(node.parameter, segments, at + 1)
    return None


def _values(operation: Operation, segments: Sequence[str]) -> dict[str, str]:
    names = operation.path.strip("/").split("/")
    return {name[1:-1]: value for name, value in zip(names, segments, strict=True) if name.startswith("{")}
