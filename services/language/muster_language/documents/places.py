"""Where in a text a path of the spec stands: looked up in the tree once something is wrong there, never before.

Called by the reader for what the LAYER stage finds. Marking every value while reading cost a fifth of the time, and
nearly every document has no error.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import dataclass

from muster_language.catalogue import catalogue
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence


@dataclass(frozen=True, slots=True)
class Place:
    """A path as its user wrote it, and where it stands. Lines and columns count from 1."""

    path: str
    line: int
    column: int


def place_of(root: Node | None, path: str, moved: Dictionary[str, str]) -> Place | None:
    """The place of a path, else of what holds it; None where nothing on the way is in the text.

    moved: paths of the spec whose value the user wrote elsewhere (a name in the metadata, an NFS item under volumes).
    """
    begin = max((each for each in moved if path == each or path.startswith(f"{each}.")), key=len, default="")
    left = moved[begin] + path[len(begin) :] if begin else path
    written: list[str] = []
    found: Node | None = None
    node = root
    while left:
        step = _step(node, left)
        if step is None:
            break
        key, node, left = step
        written.append(key.text)
        found = node if key.text == "value" or isinstance(node, Scalar) else key
    return None if found is None else Place(".".join(written), found.line, found.column)


def _step(node: Node | None, left: str) -> tuple[Scalar, Node, str] | None:
    """The entry that the path goes through, and the path behind it. Labels may hold dots: the longest key wins."""
    if isinstance(node, Sequence):
        index, _, rest = left.partition(".")
        here = next((each for number, each in enumerate(node.items) if str(number) == index), None)
        return None if here is None else (Scalar(index, False, True, here.line, here.column), here, rest)
    if not isinstance(node, Mapping):
        return None
    fitting = [(key, value, name) for key, value in node.entries for name in _names(key.text) if _leads(name, left)]
    if not fitting:
        return None
    key, value, name = max(fitting, key=lambda each: len(each[2]))
    return key, value, left[len(name) + 1 :]


def _names(word: str) -> tuple[str, ...]:
    row = catalogue().by_yaml.get(word)
    return (word,) if row is None or row.yaml == word else (word, row.yaml)


def _leads(name: str, path: str) -> bool:
    return path == name or path.startswith(f"{name}.")
