"""Files of documents: read, checked on the spot, and cut into the pieces that are sent.

Called by submit, validate and `templates apply`. Errors of the language are found here, without a control plane; what
the control plane finds is shown the same way, with its lines counted in the whole file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

import muster_language as language
from muster_client.cli.failures import in_file, violation_text
from muster_client.cli.output import note
from muster_client.errors import AlreadyExists, InvalidInput, MusterError, NotFound, Violation
from muster_language.documents.loading import decode, load
from muster_language.documents.nodes import Mapping, Node

STDIN: Final = "-"
Files = Annotated[list[Path], Parameter(name=["--file", "-f"], consume_multiple=True, negative="")]
"""What verbs take that read documents: -f a.yaml b.yaml, or -f for each."""
_ABOUT_THE_DOCUMENT: Final = (InvalidInput, AlreadyExists, NotFound)
_SEPARATOR: Final = re.compile(r"^(---|\.\.\.)(\s|$)")


@dataclass(frozen=True, slots=True)
class Piece:
    """One document of a file. `offset`: lines of the file before its first."""

    source: str
    text: str
    offset: int
    document: language.Document

    def placed(self, violations: Iterable[Violation]) -> list[Violation]:
        """The control plane's violations with their places in the whole file.

        One that names a field and no line is looked up in the text; what stands nowhere is said of the document.
        """
        return [self._placed(each) for each in violations]

    def _placed(self, violation: Violation) -> Violation:
        if self.document.list_line:  # what was sent was written anew: its lines are not those of the file
            return replace(violation, line=self.document.line, column=1)
        if violation.line:
            return replace(violation, line=violation.line + self.offset)
        # A name is a field of the spec to the control plane and usually stands in the metadata.
        for path in (violation.path, f"metadata.{violation.path.rpartition('.')[2]}"):
            if found := _place(self.text, path):
                return replace(violation, path=path, line=found.line + self.offset, column=found.column)
        return replace(violation, line=self.document.line, column=1)


def read_files(files: Sequence[Path], *, done: str = "nothing was submitted") -> list[Piece]:
    """Every document of every file. Raises InvalidInput with all the errors of the first file that has any."""
    pieces: list[Piece] = []
    for path in files:
        source, text = text_of(path)
        # Which members of a pod template are let through is a setting of the control plane, which judges them.
        documents = language.read(text, source=source, template_fields=[language.ANY_FIELD])
        violations = [_violation(each) for document in documents for each in document.violations]
        if violations or not documents:
            found = violations or [Violation("", "no document in it")]
            raise in_file(InvalidInput, source, found, done=done)
        pieces += _pieces(source, text, documents)
    return pieces


def warn(pieces: Iterable[Piece]) -> None:
    """Says on stderr what refuses nothing, such as a member without effect."""
    for piece in pieces:
        for each in piece.document.warnings:
            note(violation_text(_violation(each), piece.source))


@dataclass(slots=True)
class Checked:
    """One document as `validate` sees it; no `piece` where its file could not be read as text."""

    source: str
    piece: Piece | None
    violations: list[Violation]
    warnings: list[Violation]


def check_files(files: Sequence[Path]) -> list[Checked]:
    """Every document of every file with what is wrong with it; a file that cannot be read is one that is not valid."""
    return [each for path in files for each in _check_file(path)]


def _check_file(path: Path) -> list[Checked]:
    try:
        source, text = text_of(path)
    except InvalidInput as problem:
        found = list(problem.violations) or [Violation("", problem.message.removeprefix(f"{path}: "))]
        return [Checked(str(path), None, found, [])]
    documents = language.read(text, source=source)
    pieces = _pieces(source, text, documents)
    return [
        Checked(
            source, piece, *([_violation(one) for one in part] for part in (document.violations, document.warnings))
        )
        for piece, document in zip(pieces, documents, strict=True)
    ]


def refused(piece: Piece, problem: MusterError, *, done: str) -> MusterError:
    """The control plane's refusal of a piece; in the form of a file's errors where it is about what stands there."""
    if problem.violations or isinstance(problem, _ABOUT_THE_DOCUMENT):
        violations = problem.violations or (Violation("", problem.message),)
        return in_file(type(problem), piece.source, piece.placed(violations), done=done)
    return type(problem)(f"{piece.source}:{piece.document.line}: {problem.message}", detail=problem.detail)


def text_of(path: Path) -> tuple[str, str]:
    """The name and the text of a file, or of standard input. Raises InvalidInput."""
    source = "<stdin>" if str(path) == STDIN else str(path)
    try:
        content = sys.stdin.buffer.read() if source == "<stdin>" else path.read_bytes()
    except OSError as problem:
        raise InvalidInput(f"{path}: {problem.strerror or problem}") from None
    text = decode(content)
    if isinstance(text, str):
        return source, text
    raise in_file(InvalidInput, source, [_violation(text)], done="nothing was done")


def _place(text: str, path: str) -> Node | None:
    """What stands at a path of the first document of a text."""
    documents = load(text)
    node = documents[0].root if documents else None
    for step in path.split("."):
        if not isinstance(node, Mapping):
            return None
        node = next((value for key, value in node.entries if key.text == step), None)
    return node


def _violation(found: language.Violation) -> Violation:
    message = f"{found.message}\n{found.allowed}" if found.allowed else found.message
    return Violation(found.path, message, found.line, found.column)


def _pieces(source: str, text: str, documents: Sequence[language.Document]) -> list[Piece]:
    """Cuts a file where its documents begin; a separator belongs to neither side. Items of a list are written anew."""
    lines = text.split("\n")
    starts = [0, *((document.list_line or document.line) - 1 for document in documents[1:]), len(lines)]
    pieces = []
    for index, document in enumerate(documents):
        if document.list_line and not document.violations:
            written = language.write(
                document.spec, namespace=document.namespace, metadata_name=document.object_name or None
            )
            pieces.append(Piece(source, written, 0, document))
            continue
        own = lines[starts[index] : starts[index + 1]]
        if index:
            own[0] = _SEPARATOR.sub("", own[0], count=1)
        while index + 1 < len(documents) and own and _is_between(own[-1]):
            own.pop()
        pieces.append(Piece(source, "\n".join(own) + "\n", starts[index], document))
    return pieces


def _is_between(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#") or _SEPARATOR.match(line) is not None
