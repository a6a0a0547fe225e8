"""Policies between the service's values and the messages of PoliciesService."""

from __future__ import annotations

from collections.abc import Iterator

from muster.api.v1 import policies_pb2 as pb
from muster_chassis.errors import InvalidArgument, Violation
from muster_language import Kind
from muster_policy.domain.changes import Reach
from muster_policy.domain.standing import Row
from muster_policy.ports import Written
from muster_policy_engine.documents.document import KINDS, PolicyDocument
from muster_policy_engine.policy import LEVELS, Level, Scope


def policy_of(row: Row) -> pb.Policy:
    """A policy as it stands."""
    message = pb.Policy(
        id=row.id,
        name=row.name,
        workload=row.kind.word,
        scope=pb.PolicyScope(level=row.scope.level, unit=row.scope.unit),
        version=row.version,
        document=row.document,
        source=row.source,
        created_by=row.created_by,
        updated_by=row.updated_by,
    )
    message.created_at.FromDatetime(row.created_at)
    message.updated_at.FromDatetime(row.updated_at)
    return message


def changed_to(written: Written) -> pb.PolicyVersion:
    """One version in a history."""
    row = written.row
    message = pb.PolicyVersion(
        version=row.version,
        author=written.author,
        channel=written.channel,
        reason=written.reason,
        source=row.source,
        document="" if row.gone else row.document,
    )
    message.at.FromDatetime(row.updated_at)
    return message


def document_lines(name: str, document: PolicyDocument) -> Iterator[Violation]:
    """The errors of a document, each at its file, line and column."""
    for each in document.violations:
        path = f"{each.path}: " if each.path else ""
        yield Violation(f"{name}:{each.line}:{each.column}", f"{path}{each.text}")


def kind_of_word(word: str) -> Kind:
    """The kind of workload that a request names. Raises InvalidArgument."""
    if word not in KINDS:
        said = f"{word[:60]!r} is no kind of workload; {', '.join(KINDS)} are"
        raise InvalidArgument(said, violations=[Violation("workload", said)])
    return KINDS[word]


def scope_of(scope: pb.PolicyScope) -> Scope:
    """The scope that a request names. Raises InvalidArgument."""
    level = scope.level or Level.TENANT.value
    if level not in set(LEVELS) or (level == Level.TENANT) == bool(scope.unit):
        said = f"level {level[:60]!r} with unit {scope.unit[:60]!r} is no scope; tenant has no unit, all others have"
        raise InvalidArgument(said, violations=[Violation("scope", said)])
    return Scope(Level(level), scope.unit)


def reach_of(reach: pb.PolicyReach) -> Reach:
    """Where the caller may write, as submission says it."""
    return Reach(reach.tenant, frozenset(reach.departments), frozenset(reach.projects))
