"""Files and folders of policy documents: read, checked on the spot, and sent as they are.

    policies/
      tenant.yaml            documents of kind Policy, with --- between them
      teams/vision.yml

Called by `muster policies apply` and `diff`. Holds: every error of every file is said at once, with its file, line and
column, whether it is found here or by the control plane; nothing is sent where a document cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from muster.api.v1 import policies_pb2
from muster_client.cli.documents import text_of
from muster_client.errors import InvalidInput, MusterError, Violation
from muster_language.documents.loading import load
from muster_language.documents.places import place_of
from muster_policy_engine.documents.document import Frame, PolicyDocument, read_policies
from muster_policy_engine.documents.v1 import Projects, usual_project

SUFFIXES: Final = frozenset({".yaml", ".yml"})
_AT: Final = re.compile(r"(\d+)(?::(\d+))?(?:: (.*))?", re.DOTALL)
_BLOCK: Final = "policy"  # under which a document has its defaults and rules


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """One file: its name, its text, and the documents in it. frame: what is put around a bare body."""

    source: str
    text: str
    documents: list[PolicyDocument]
    frame: Frame | None = None

    def message(self) -> policies_pb2.PolicyText:
        """Return the file as the API takes it."""
        sent = policies_pb2.PolicyText(text=self.text, file=self.source)
        if self.frame is not None:
            scope = self.frame.scope
            sent.workload, sent.name = self.frame.kind.word, self.frame.name
            sent.scope.level, sent.scope.unit = scope.level, scope.unit
        return sent

    def places(self) -> Iterator[tuple[str, str, str]]:
        """Yield the kind of workload, the level and the unit of each policy, as the API says them."""
        for document in self.documents:
            if (policy := document.policy) is not None:
                yield policy.kind.word, str(policy.scope.level), policy.scope.unit

    def violations(self) -> Iterator[Violation]:
        """Yield the errors of the documents, each at its line and column."""
        for document in self.documents:
            for each in document.violations:
                message = f"{each.message}\n{each.allowed}" if each.allowed else each.message
                yield Violation(each.path, message, each.line, each.column, self.source)


def project_of(namespace: str) -> str:
    """Return the project of a namespace as far as that is known here: the control plane looks it up."""
    return usual_project(namespace) or namespace


def read_policy_files(
    paths: Iterable[Path], frame: Frame | None, *, done: str, projects: Projects = project_of
) -> list[PolicyFile]:
    """Return the files, and those of the folders, that have documents in them. Raises InvalidInput with every error.

    done: what was not done, for the error. projects: of the namespaces of documents of v1.
    """
    files: list[PolicyFile] = []
    wrong: list[Violation] = []
    for path in dict.fromkeys(found for given in paths for found in files_of(given)):
        try:
            source, text = text_of(path)
        except InvalidInput as problem:
            wrong += _unread(path, problem)
            continue
        files.append(PolicyFile(source, text, read_policies(text, frame, projects), frame))
        wrong += files[-1].violations()
    if wrong:
        raise _refused(InvalidInput(""), wrong, done)
    return [file for file in files if file.documents]


def _unread(path: Path, problem: InvalidInput) -> list[Violation]:
    """Return why a file is no text."""
    found = [replace(each, file=problem.source) for each in problem.violations]
    return found or [Violation("", problem.message.removeprefix(f"{path}: "), file=str(path))]


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or every *.yaml and *.yml below a folder, sorted, without those that are hidden."""
    if not path.is_dir():
        return [path]
    found = (each for each in path.rglob("*") if each.suffix in SUFFIXES and not each.is_dir())
    # A checkout has YAML of another kind in .github.
    return sorted(each for each in found if not any(part.startswith(".") for part in each.relative_to(path).parts))


def placed(files: Sequence[PolicyFile], problem: MusterError, *, done: str) -> MusterError:
    """Return a refusal of the control plane with its places in the files; as it is if it names no place in one."""
    found = [_placed(files, each) for each in problem.violations]
    if not found or not all(each.file for each in found):
        return problem
    return _refused(problem, found, done)


def _refused(problem: MusterError, violations: Sequence[Violation], done: str) -> MusterError:
    count = f"{len(violations)} error{'' if len(violations) == 1 else 's'}"
    refused = type(problem)(f"{count}, {done}", detail=replace(problem.detail, violations=tuple(violations)))
    refused.source = violations[0].file
    return refused


def _placed(files: Sequence[PolicyFile], violation: Violation) -> Violation:
    """Split the place FILE:LINE[:COLUMN][: PATH] of a violation; look up the position of a path without a column."""
    near = [file for file in files if violation.path.startswith(f"{file.source}:")]
    file = max(near, key=lambda each: len(each.source), default=None)
    at = _AT.fullmatch(violation.path[len(file.source) + 1 :]) if file is not None else None
    if file is None or at is None:
        return violation
    line, column, path = int(at[1]), int(at[2] or 1), at[3] or ""
    if path and not at[2]:
        line, column = _position(file.text, line, path)
    return Violation(path, violation.message, line, column, file.source)


def _position(text: str, line: int, path: str) -> tuple[int, int]:
    """Return where the document that begins at the line has the path; its beginning if it has none."""
    root = next((each.root for each in load(text) if each.line == line), None)
    place = place_of(root, f"{_BLOCK}.{path}", {}) or place_of(root, path, {})
    return (place.line, place.column) if place is not None else (line, 1)
