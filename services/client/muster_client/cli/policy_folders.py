"""Verbs that take policies from files and folders, or write them there: apply, diff, export.

A folder of policies is meant to be a checkout of a git repository. Holds: a folder is applied in one transaction, all
of it or nothing; `diff` shows what `apply` would do, since the control plane answers both in the same way; `export`
writes texts that `apply` finds unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

from cyclopts import Parameter

from muster.api.v1 import policies_pb2
from muster_client.cli.documents import Files
from muster_client.cli.exits import Exit, exit_of
from muster_client.cli.failures import in_file, show_failure
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.policies import DryRun, warn, written_json
from muster_client.cli.policy_files import PolicyFile, files_of, placed, read_policy_files
from muster_client.cli.policy_scopes import EVERY, NOWHERE, SCOPES, PolicyPlace, Wanted, kind_of
from muster_client.cli.printable import one_line
from muster_client.cli.render import policies as shown
from muster_client.errors import InvalidInput, MusterError, Violation
from muster_client.muster import Muster
from muster_client.policies import ApplyOptions
from muster_policy_engine.documents.document import KINDS, Frame
from muster_policy_engine.policy import Level, Scope

_NO_OPTIONS: Final = Common()
_LISTED: Final = 10  # files that an error names


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Bare:
    """What is put around a body without kind and scope: `defaults` and `rules` at the top of its file."""

    workload: Annotated[str, Parameter(name="--workload")] = ""
    """Of a bare body: its kind of workload; its scope is --tenant, --cluster, --department or -p."""
    name: Annotated[str, Parameter(name="--name")] = ""
    """Of a bare body: its name."""

    def frame(self, place: PolicyPlace, common: Common) -> Frame | None:
        """Return the frame; None where documents name their kind and scope themselves. Raises InvalidInput."""
        if not self.workload:
            if self.name or place.is_named:
                raise InvalidInput(
                    f"--name, {SCOPES} are for a body without kind and scope: name its kind with --workload too, "
                    "or leave them out where the documents name their scope"
                )
            return None
        scope = place.needed(self.workload, common)
        return Frame(KINDS[kind_of(self.workload)], Scope(Level(scope.level), scope.unit), self.name)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Writing:
    """How policies are applied."""

    source: Annotated[str, Parameter(name="--source")] = ""
    """What applies them, such as the name of a git repository; left out: a person."""
    prune: Annotated[bool, Parameter(name="--prune", negative="")] = False
    """Remove the policies that --source applied before and the files no longer have."""
    allow_empty: Annotated[bool, Parameter(name="--allow-empty", negative="")] = False
    """Let --prune remove everything that the source applied."""
    take_ownership: Annotated[bool, Parameter(name="--take-ownership", negative="")] = False
    """Take policies over that another source applied."""
    reason: Annotated[str, Parameter(name="--reason")] = ""
    """Why, for the history."""

    def options(self, *, dry_run: bool) -> ApplyOptions:
        """Return the options as the API takes them. Raises InvalidInput."""
        if self.prune and not self.source:
            raise InvalidInput("--prune removes what one source applied: name it with --source")
        if self.allow_empty and not self.prune:
            raise InvalidInput("--allow-empty is about what --prune removes: give --prune too, or leave it out")
        return ApplyOptions(
            source=self.source,
            prune=self.prune,
            allow_empty=self.allow_empty,
            take_ownership=self.take_ownership,
            validate_only=dry_run,
            reason=self.reason,
        )


_BARE: Final = Bare()
_WRITING: Final = Writing()


async def apply_policies(
    *,
    file: Files,
    bare: Bare = _BARE,
    writing: Writing = _WRITING,
    dry_run: DryRun = False,
    place: PolicyPlace = NOWHERE,
    common: Common = _NO_OPTIONS,
) -> int:
    """Make and change the policies of files and folders, all of them or none.

    Args:
        file: A file of policy documents, or a folder: every *.yaml and *.yml below it; - reads standard input.
        bare: For a body without kind and scope.
        writing: How.
        dry_run: Say what would be done, and do nothing.
        place: For a body without kind and scope: its scope.
        common: Connection.
    """
    options = writing.options(dry_run=dry_run)
    done = "nothing would be applied" if dry_run else "nothing was applied"
    files = read_policy_files(file, bare.frame(place, common), done=done)
    _check_any(files, file, options, done)
    async with common.muster() as muster:
        answer = await _applied(muster, files, options, done)
    if common.json:
        emit({"policies": list(map(written_json, answer.policies)), "revision": answer.revision, "dryRun": dry_run})
        return Exit.OK
    for each in answer.policies:
        say(shown.written_line(each, dry_run=dry_run))
    if len(answer.policies) > 1:
        say(shown.summary(answer.policies))
    for each in answer.policies:
        warn(each.policy)
    return Exit.OK


def _check_any(files: Sequence[PolicyFile], paths: Sequence[Path], options: ApplyOptions, done: str) -> None:
    """Refuse files without any document, unless everything of a source may be pruned."""
    if not files and not options.prune:
        raise in_file(InvalidInput, str(paths[0]), [Violation("", "no policy document in it")], done=done)


async def _applied(
    muster: Muster, files: Sequence[PolicyFile], options: ApplyOptions, done: str
) -> policies_pb2.ApplyPoliciesResponse:
    try:
        return await muster.policies.apply([each.message() for each in files], options)
    except MusterError as problem:
        raise placed(files, problem, done=done) from None


async def diff_policies(
    *,
    file: Files,
    source: str = "",
    take_ownership: Annotated[bool, Parameter(name="--take-ownership", negative="")] = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Show what `apply` would do with files and folders: exit 0 for nothing, 1 for differences, 2 and more for errors.

    Args:
        file: A file of policy documents, or a folder: every *.yaml and *.yml below it; - reads standard input.
        source: What applies them. What it applied before and the files no longer have is shown as removed, as
            `apply --prune` would remove it.
        take_ownership: As `apply` has it.
        common: Connection.
    """
    try:
        written, revision, texts = await _differences(file, source, take_ownership=take_ownership, common=common)
    except MusterError as problem:
        show_failure(problem, as_json=common.json)
        return max(exit_of(problem), Exit.INVALID)  # 1 would pass for differences
    changed = [each for each in written if each.outcome != policies_pb2.POLICY_OUTCOME_UNCHANGED]
    if common.json:
        told = [{**written_json(each), "diff": texts.get(each.policy.id, "")} for each in written]
        emit({"policies": told, "revision": revision, "different": bool(changed)})
    else:
        for each in changed:
            say(shown.written_line(each, dry_run=True))
            if texts[each.policy.id]:
                say(texts[each.policy.id])
        say(shown.summary(written) or "no policies, no differences")
    return Exit.FAILED if changed else Exit.OK


async def _differences(
    paths: Files, source: str, *, take_ownership: bool, common: Common
) -> tuple[list[policies_pb2.WrittenPolicy], int, Mapping[str, str]]:
    """Return what would be written, the revision, and the unified diff of each policy that would change, by its id."""
    done = "nothing was compared"
    options = ApplyOptions(source=source, prune=bool(source), take_ownership=take_ownership, validate_only=True)
    files = read_policy_files(paths, None, done=done)
    _check_any(files, paths, options, done)
    names = {key: file.source for file in files for key in file.places()}
    texts: dict[str, str] = {}
    async with common.muster() as muster:
        answer = await _applied(muster, files, options, done)
        for each in answer.policies:
            if each.outcome == policies_pb2.POLICY_OUTCOME_UNCHANGED:
                continue
            made = each.policy
            name = names.get((made.workload, made.scope.level, made.scope.unit), "")
            texts[made.id] = shown.difference(each, await _before(muster, each), name)
    return list(answer.policies), answer.revision, texts


async def _before(muster: Muster, written: policies_pb2.WrittenPolicy) -> policies_pb2.Policy | None:
    """Return the policy before the write; None if there is none yet."""
    if written.outcome == policies_pb2.POLICY_OUTCOME_CREATED:
        return None
    return await muster.policies.get(policies_pb2.PolicyKey(id=written.policy.id))


async def export_policies(
    directory: Path, *, wanted: Wanted = EVERY, place: PolicyPlace = NOWHERE, common: Common = _NO_OPTIONS
) -> int:
    """Write one file for each policy, named by kind of workload and scope; applying the folder changes nothing.

    Files of an earlier export are replaced. A folder with other YAML files is refused.

    Args:
        directory: The folder; it is made where it does not exist.
        wanted: Which of them.
        place: Only those of a scope; with -p, those of a project.
        common: Connection.
    """
    kind, scope = wanted.kind(), place.scope(common)
    async with common.muster() as muster:
        found = [each async for each in muster.policies.list(workload=kind, scope=scope, source=wanted.source)]
    files = {directory / file_name(each): each for each in found}
    _check_folder(directory, files)
    _write(directory, files)
    if common.json:
        emit(_exported(directory, files))
    else:
        say(one_line(f"{directory}: {len(files)} {'policy' if len(files) == 1 else 'policies'}"))
    return Exit.OK


def file_name(policy: policies_pb2.Policy) -> str:
    """Return a name such as `training-department-research.yaml`; other characters than those of URLs become %XX."""
    parts = (policy.workload, policy.scope.level, policy.scope.unit)
    return f"{'-'.join(quote(each, safe='') for each in parts if each)}.yaml"


def _check_folder(folder: Path, files: Iterable[Path]) -> None:
    """Raise InvalidInput if the folder is a file, or has YAML files that the export would not replace."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder}: this is a file, and the name of a folder is expected")
    others = sorted(set(files_of(folder)) - set(files)) if folder.exists() else []
    if others:
        named = ", ".join(str(each.relative_to(folder)) for each in others[:_LISTED])
        more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        raise InvalidInput(
            f"{folder}: files that are no policy of this export would be applied with it: {named}{more}\n"
            "  remove them, or export into another folder"
        )


def _write(folder: Path, files: Mapping[Path, policies_pb2.Policy]) -> None:
    """Write the documents as bytes, which keeps the ends of lines. Raises InvalidInput for errors of the system."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, policy in files.items():
            path.write_bytes(policy.document.encode())
    except OSError as problem:
        raise InvalidInput(f"{problem.filename or folder}: {problem.strerror or problem}") from None


def _exported(folder: Path, files: Mapping[Path, policies_pb2.Policy]) -> dict[str, Any]:
    told = [{"file": path.name, "id": each.id, "version": each.version} for path, each in files.items()]
    return {"folder": str(folder), "policies": told}
