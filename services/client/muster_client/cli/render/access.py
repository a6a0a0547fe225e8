"""Roles, applications and the audit as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from google.protobuf.timestamp_pb2 import Timestamp
from rich.table import Table

from muster.api.v1 import access_pb2 as api
from muster_client.cli.printable import one_line
from muster_client.cli.render.grid import grid


def sentence(rule: api.AccessRule) -> str:
    """One rule in words."""
    return f"{_holder(rule)} is {rule.role} in {_scope(rule)}"


def rules(found: Sequence[api.AccessRule]) -> Table:
    """Who has which role where."""
    return grid(
        ("RULE", "WHO", "ROLE", "WHERE", "SINCE"),
        [(str(rule.id), _holder(rule), rule.role, _scope(rule), _day(rule.created_at)) for rule in found],
    )


def caller(me: api.WhoAmIResponse) -> str:
    """Who somebody is, and what they have."""
    if me.open:
        return f"{me.subject}: authentication is switched off here, everyone may do everything"
    vouched = f" (vouched for by {one_line(me.issuer)})" if me.issuer else ""
    groups = f"\ngroups: {one_line(', '.join(me.groups))}" if me.groups else ""
    roles = (
        "".join(f"\n  {one_line(f'{rule.role} in {_scope(rule)}')}" for rule in me.rules)
        or "\n  no role: you may do nothing yet"
    )
    return f"{one_line(_subject(me))}{vouched}{groups}\nroles:{roles}"


def _subject(me: api.WhoAmIResponse) -> str:
    return f"application {me.subject_name} ({me.subject})" if me.subject_name else me.subject


def applications(found: Sequence[api.Application]) -> Table:
    """The applications."""
    return grid(
        ("NAME", "ID", "ENABLED", "LAST TOKEN"),
        [
            (
                one.name,
                one.id,
                "yes" if one.enabled else "no",
                _time(one.used_at) if one.HasField("used_at") else "never",
            )
            for one in found
        ],
    )


def audit(found: Sequence[api.AuditEntry]) -> str:
    """The audit, a line each. No table: what is cut off to fit the width would be what somebody looks for."""
    rows = [
        (
            _time(line.at),
            line.subject_name or line.subject or "nobody",
            line.verb,
            line.outcome,
            f"{line.target} in {line.project}" if line.project else line.target,
            f"by {line.channel} {line.peer}".rstrip(),
        )
        for line in found
    ]
    printed = [tuple(map(one_line, row)) for row in rows]
    widths = [max(len(row[at]) for row in printed) for at in range(len(printed[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in printed
    )


def _holder(rule: api.AccessRule) -> str:
    kind = "user" if rule.holder_kind == "subject" else rule.holder_kind
    return f"{kind} {rule.holder_name or rule.holder}" + (f" of {rule.issuer}" if rule.issuer else "")


def _scope(rule: api.AccessRule) -> str:
    return f"{rule.scope_kind} {rule.scope}" if rule.scope else "the whole tenant"


def _day(at: Timestamp) -> str:
    return at.ToDatetime(UTC).astimezone().strftime("%Y-%m-%d")


def _time(at: Timestamp) -> str:
    return at.ToDatetime(UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
