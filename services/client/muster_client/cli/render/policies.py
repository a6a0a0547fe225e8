"""Policies, their versions and what holds at a place, for people. Pure: now is an argument."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from muster.api.v1 import policies_pb2 as api
from muster.policy.v1.policy_pb2 import ComplianceIssue, PolicyRef
from muster_client.cli.printable import one_line
from muster_client.cli.render.amounts import age, clock, time_of
from muster_client.cli.render.grid import grid

_OUTCOMES: Final = {
    api.POLICY_OUTCOME_CREATED: "created",
    api.POLICY_OUTCOME_CHANGED: "changed",
    api.POLICY_OUTCOME_UNCHANGED: "unchanged",
    api.POLICY_OUTCOME_REMOVED: "removed",
}
_NOWHERE: Final = "/dev/null"  # as diff names what is not there


def outcome_word(written: api.WrittenPolicy) -> str:
    """Return what was done to a policy; a number if this version of the client does not know it."""
    return _OUTCOMES.get(written.outcome, str(written.outcome))


def scope_text(level: str, unit: str) -> str:
    """`tenant`, or `department research`."""
    return f"{level} {unit}" if unit else level


def title(policy: api.Policy) -> str:
    """`training policy of department research`."""
    return f"{policy.workload} policy of {scope_text(policy.scope.level, policy.scope.unit)}"


def policies(items: Iterable[api.Policy], now: datetime) -> Table:
    """One line a policy."""
    return grid(
        ["WORKLOAD", "SCOPE", "NAME", "VERSION", "AGE", "SOURCE"],
        (
            [
                each.workload,
                scope_text(each.scope.level, each.scope.unit),
                each.name,
                str(each.version),
                age(time_of(each.updated_at), now),
                each.source or "-",
            ]
            for each in items
        ),
        right=["VERSION", "AGE"],
    )


def policy(found: api.Policy) -> str:
    """Show all of one policy, its document last."""
    lines = [
        f"{title(found)}: {found.name}, version {found.version}",
        f"  id       {found.id}",
        f"  source   {found.source or 'applied by hand'}",
        f"  created  {clock(time_of(found.created_at))} by {found.created_by or '-'}",
        f"  changed  {clock(time_of(found.updated_at))} by {found.updated_by or '-'}",
        *(f"  warning  {each}" for each in found.warnings),
    ]
    return "\n".join([*map(one_line, lines), "", found.document.rstrip("\n")])


def versions(items: Iterable[api.PolicyVersion]) -> Table:
    """One line a version. A version without a document is the removal of the policy."""
    return grid(
        ["VERSION", "WHEN", "AUTHOR", "CHANNEL", "SOURCE", "REASON"],
        (
            [
                str(each.version),
                clock(time_of(each.at)).removesuffix(" UTC"),
                each.author or "-",
                each.channel or "-",
                each.source or "-",
                (each.reason or "-") if each.document else f"removed: {each.reason}".removesuffix(": "),
            ]
            for each in items
        ),
        right=["VERSION"],
    )


def effective(answer: api.GetEffectivePolicyResponse) -> Group | str:
    """Show the rules and the defaults that hold, each with the policy that it is from."""
    parts: list[RenderableType] = []
    if answer.rules:
        parts.append(rules(answer.rules))
    if answer.defaults:
        parts += [Text("")] * bool(parts)
        parts.append(defaults(answer.defaults))
    return Group(*parts) if parts else "no policy gives a rule or a default here"


def rules(items: Iterable[api.EffectiveRule]) -> Table:
    """One line a rule."""
    rows = [[each.path, each.rule, each.value, policy_text(each.policy)] for each in items]
    return grid(["PATH", "RULE", "VALUE", "POLICY"], rows)


def defaults(items: Iterable[api.EffectiveDefault]) -> Table:
    """One line a default."""
    rows = [[each.path, each.item or "-", each.value, policy_text(each.policy)] for each in items]
    return grid(["PATH", "ITEM", "DEFAULT", "POLICY"], rows)


def policy_text(policy: PolicyRef) -> str:
    """`research-trainings v7, department research`."""
    return f"{policy.name} v{policy.version}, {scope_text(policy.scope, policy.unit)}"


def written_line(written: api.WrittenPolicy, *, dry_run: bool = False) -> str:
    """Say what a write did to one policy, or would do."""
    word, made = outcome_word(written), written.policy
    said = f"would be {word}" if dry_run and written.outcome != api.POLICY_OUTCOME_UNCHANGED else word
    return one_line(f"{title(made)}: {said} ({made.name}, version {made.version})")


def summary(written: Sequence[api.WrittenPolicy]) -> str:
    """`1 created, 2 unchanged`."""
    words = [outcome_word(each) for each in written]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def difference(written: api.WrittenPolicy, before: api.Policy | None, file: str) -> str:
    """A unified diff of the documents of one policy. before: None where there is none. file: of the new document."""
    made = written.policy
    gone = written.outcome == api.POLICY_OUTCOME_REMOVED
    old = f"{title(made)}, version {before.version}" if before is not None else _NOWHERE
    new = _NOWHERE if gone else file or f"{title(made)}, version {made.version}"
    return "\n".join(_lines(before.document if before is not None else "", "" if gone else made.document, old, new))


def _lines(before: str, after: str, old: str, new: str) -> Iterator[str]:
    was, now = (text.removesuffix("\n").split("\n") if text else [] for text in (before, after))
    return difflib.unified_diff(was, now, one_line(old), one_line(new), lineterm="")


def issue_text(issue: ComplianceIssue) -> str:
    """`path: details (policy NAME v3 of the department)`; the path may be looked up in a document."""
    origin = f" (policy {issue.policy} v{issue.version} of the {issue.scope})" if issue.policy else ""
    inside = bool(issue.item) and f".{issue.item}" not in issue.path
    path = f"{issue.path}.{issue.item}" if inside else issue.path
    return f"{path}: {issue.details}{origin}"
