"""`muster policies convert`: policies of v1 as documents of `kind: Policy`, with what these cannot say.

Nothing is asked of the control plane. Holds: stdout is a file that `muster policies apply` takes; what is different
goes to stderr, each at its file and line, and the exit status says whether anything is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from muster_client.cli.documents import Files
from muster_client.cli.exits import Exit
from muster_client.cli.failures import in_file
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.policy_files import PolicyFile, project_of, read_policy_files
from muster_client.cli.printable import one_line
from muster_client.errors import InvalidInput, Violation
from muster_policy_engine.documents.converting import Remark, convert
from muster_policy_engine.documents.document import PolicyDocument
from muster_policy_engine.documents.v1 import usual_project
from muster_policy_engine.documents.writing import write_policy
from muster_policy_engine.policy import Dialect, Policy

_NO_OPTIONS: Final = Common()
_DONE: Final = "nothing was converted"


@dataclass(frozen=True, slots=True)
class _Written:
    """One document as v2 says it. where: FILE:LINE of the one that was given."""

    where: str
    policy: Policy
    text: str
    lost: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()


async def convert_policies(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Print policies of v1 as documents of kind Policy: exit 0 where they say the same, 1 where something is lost.

    Nothing is asked of the control plane. What is different is printed to standard error; documents of kind Policy stay
    as they are.

    Args:
        file: A file of policy documents, or a folder: every *.yaml and *.yml below it; - reads standard input.
        common: Only --json counts here.
    """
    unknown: set[str] = set()

    def project(namespace: str) -> str:
        if usual_project(namespace) is None:
            unknown.add(namespace)
        return project_of(namespace)

    files = read_policy_files(file, None, done=_DONE, projects=project)
    if not files:
        raise in_file(InvalidInput, str(file[0]), [Violation("", "no policy document in it")], done=_DONE)
    written = [
        _converted(each, document, document.policy, unknown)
        for each in files
        for document in each.documents
        if document.policy is not None
    ]
    if common.json:
        emit({"policies": list(map(_told, written)), "lost": any(each.lost for each in written)})
    else:
        say("---\n".join(each.text for each in written).rstrip("\n"))
        for each in written:
            _remark(each)
    return Exit.FAILED if any(each.lost for each in written) else Exit.OK


def _converted(file: PolicyFile, document: PolicyDocument, policy: Policy, unknown: set[str]) -> _Written:
    where = f"{file.source}:{document.line}"
    if policy.dialect is Dialect.V2:
        return _Written(where, policy, document.text)
    made = convert(policy)
    lost = made.lost
    if policy.scope.unit in unknown:
        unit = policy.scope.unit
        lost = (Remark("metadata.namespace", f"the project of {unit} is not known here: check scope.project"), *lost)
    return _Written(where, made.policy, write_policy(made.policy), lost, made.notes)


def _remark(written: _Written) -> None:
    for each in written.lost:
        note(one_line(f"{written.where}: {each}"))
    for each in written.notes:
        note(one_line(f"{written.where}: note: {each}"))


def _told(written: _Written) -> dict[str, Any]:
    policy = written.policy
    return {
        "file": written.where,
        "workload": policy.kind.word,
        "scope": {"level": str(policy.scope.level), "unit": policy.scope.unit},
        "document": written.text,
        "lost": [{"path": each.path, "message": each.message} for each in written.lost],
        "notes": [{"path": each.path, "message": each.message} for each in written.notes],
    }
