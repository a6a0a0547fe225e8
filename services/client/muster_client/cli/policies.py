"""Verbs about one policy or a list of them: list, get, delete, history, rollback.

Writing the policies of files is in policy_folders.py. Holds: a policy is named by its id, or by its kind of workload
and its scope; its name is a label.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from muster.api.v1 import policies_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.policy_scopes import EVERY, NOWHERE, PolicyPlace, Wanted, kind_of
from muster_client.cli.printable import one_line
from muster_client.cli.render import policies as shown
from muster_client.cli.render.plain import plain
from muster_client.errors import InvalidInput
from muster_client.muster import Muster
from muster_kernel.ids import is_uuid

_NO_OPTIONS: Final = Common()
DryRun = Annotated[bool, Parameter(name="--dry-run", negative="")]


async def list_policies(*, wanted: Wanted = EVERY, place: PolicyPlace = NOWHERE, common: Common = _NO_OPTIONS) -> int:
    """List policies, by kind of workload and scope.

    Args:
        wanted: Which of them.
        place: Only those of a scope; with -p, those of a project.
        common: Connection.
    """
    kind, scope = wanted.kind(), place.scope(common)
    async with common.muster() as muster:
        found = [each async for each in muster.policies.list(workload=kind, scope=scope, source=wanted.source)]
    if common.json:
        emit(found)
        return Exit.OK
    say(shown.policies(found, datetime.now(UTC)) if found else "no policies; `muster policies apply -f FILE` makes one")
    for each in found:
        warn(each)
    return Exit.OK


async def get_policy(
    policy: str,
    *,
    effective: Annotated[bool, Parameter(name="--effective", negative="")] = False,
    output: Annotated[Literal["table", "yaml", "json"], Parameter(name=["--output", "-o"])] = "table",
    place: PolicyPlace = NOWHERE,
    common: Common = _NO_OPTIONS,
) -> int:
    """Show one policy, or what all policies of a place say together.

    Args:
        policy: Its id, or its kind of workload with a scope: --tenant, --cluster, --department or -p.
        effective: The rules and defaults that hold for that kind of workload in the project (-p), the department or
            the whole tenant, each with its policy; --cluster: in that cluster.
        output: A table, its document (yaml), or everything (json).
        place: Its scope.
        common: Connection.
    """
    if effective and output == "yaml":
        raise InvalidInput("-o yaml shows one document, and --effective is about several; use -o table or -o json")
    as_json = common.json or output == "json"
    async with common.muster() as muster:
        if effective:
            _show_effective(await _effective(muster, policy, place, common), as_json=as_json)
            return Exit.OK
        found = await muster.policies.get(place.key(policy, common))
    if as_json:
        emit(found)
    elif output == "yaml":
        say(found.document.rstrip("\n"))
    else:
        say(shown.policy(found))
    return Exit.OK


async def _effective(
    muster: Muster, policy: str, place: PolicyPlace, common: Common
) -> policies_pb2.GetEffectivePolicyResponse:
    """Return what holds at the scope of a policy, or at the named place, which may be a project in a cluster."""
    if is_uuid(policy):
        found = await muster.policies.get(place.key(policy, common))
        level = found.scope.level if found.scope.unit else ""
        units = {name: found.scope.unit if level == name else "" for name in ("project", "department", "cluster")}
        return await muster.policies.effective(found.workload, **units)
    project = "" if place.tenant or place.department else common.project or ""
    return await muster.policies.effective(
        kind_of(policy), project=project, department=place.department, cluster=place.cluster
    )


def _show_effective(answer: policies_pb2.GetEffectivePolicyResponse, *, as_json: bool) -> None:
    if as_json:
        emit(answer)
        return
    say(shown.effective(answer), wide=True)  # a value that is cut off says nothing
    for each in answer.warnings:
        note(one_line(each))


async def delete_policy(
    policy: str,
    *,
    reason: str = "",
    dry_run: DryRun = False,
    place: PolicyPlace = NOWHERE,
    common: Common = _NO_OPTIONS,
) -> int:
    """Remove a policy. Workloads that run are not judged again; its versions stay.

    Args:
        policy: Its id, or its kind of workload with a scope: --tenant, --cluster, --department or -p.
        reason: Why, for the history.
        dry_run: Say whether it could be removed, and do nothing.
        place: Its scope.
        common: Connection.
    """
    key = place.key(policy, common)
    async with common.muster() as muster:
        answer = await muster.policies.delete(key, reason=reason, validate_only=dry_run)
    gone = answer.policy
    if common.json:
        emit({"deleted": plain(gone), "revision": answer.revision, "dryRun": dry_run})
    else:
        say(one_line(f"{shown.title(gone)} ({gone.name}) {'would be removed' if dry_run else 'is gone'}"))
    return Exit.OK


async def list_versions(policy: str, *, place: PolicyPlace = NOWHERE, common: Common = _NO_OPTIONS) -> int:
    """List the versions of a policy, the newest first.

    Args:
        policy: Its id, also that of a removed policy; or its kind of workload with a scope.
        place: Its scope.
        common: Connection.
    """
    key = place.key(policy, common)
    async with common.muster() as muster:
        answer = await muster.policies.versions(key)
    if common.json:
        emit(answer.versions)
    else:
        say(one_line(f"{shown.title(answer.policy)}: {answer.policy.name} ({answer.policy.id})"))
        say(shown.versions(answer.versions))
    return Exit.OK


async def roll_back(
    policy: str,
    *,
    to: Annotated[int, Parameter(name="--to")],
    reason: str = "",
    dry_run: DryRun = False,
    place: PolicyPlace = NOWHERE,
    common: Common = _NO_OPTIONS,
) -> int:
    """Write the text of an older version as a new version, if the policies of other levels allow it now.

    Args:
        policy: Its id, or its kind of workload with a scope: --tenant, --cluster, --department or -p.
        to: The number of the older version, as `muster policies history` shows it.
        reason: Why, for the history.
        dry_run: Say what would be done, and do nothing.
        place: Its scope.
        common: Connection.
    """
    if to < 1:
        raise InvalidInput(f"--to {to}: the number of a version is expected, 1 or more")
    key = place.key(policy, common)
    async with common.muster() as muster:
        answer = await muster.policies.rollback(key, to, reason=reason, validate_only=dry_run)
    if common.json:
        emit({**written_json(answer.policy), "revision": answer.revision, "dryRun": dry_run})
    else:
        say(shown.written_line(answer.policy, dry_run=dry_run))
        warn(answer.policy.policy)
    return Exit.OK


def written_json(written: policies_pb2.WrittenPolicy) -> dict[str, Any]:
    """Return what a write did to one policy, for programs."""
    return {"outcome": shown.outcome_word(written), "policy": plain(written.policy)}


def warn(policy: policies_pb2.Policy) -> None:
    """Say on stderr what the author of a policy should know."""
    for each in policy.warnings:
        note(one_line(f"{shown.title(policy)}: {each}"))
