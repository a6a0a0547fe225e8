"""What can go wrong in policy, beside what the chassis knows.

Reject              (chassis) a submission that is none goes to the dead letters
ServiceError        (chassis) answers of PoliciesService
  NotHeardYet       UNAVAILABLE: a question names a project, or a version of one, of which policy has not heard yet
  Unreadable        UNAVAILABLE: a policy of the branch was written by a newer release
  BadDocuments      INVALID_ARGUMENT: documents that are no policies, with every error at its line
    UnknownNamespace  a document of v1 is for the namespace of no project
  PolicyRefused     FAILED_PRECONDITION: what stands at other levels, or belongs to another source, is against the write
  PolicyForbidden   PERMISSION_DENIED: the caller may not write at the scope
  PolicyChanged     ABORTED: the policy has another version than the caller expects
  NoSuchPolicy      NOT_FOUND
  NoSuchUnit        NOT_FOUND: the department or project
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster_chassis.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
    Violation,
)
from muster_policy.domain.changes import Problem
from muster_policy.domain.standing import UnreadablePolicy
from muster_policy_engine.policy import Scope

__all__ = ["InvalidArgument", "NotHeardYet"]


class OldPolicyFile(Exception):
    """The setting of earlier releases names a file that still holds rules."""


class NotHeardYet(Unavailable):
    """A project is known to submission and not yet to policy: it is a moment behind."""

    reason = "NOT_HEARD_YET"

    def __init__(self, project: str) -> None:
        super().__init__(
            f"policy has not yet heard of project {project!r} as it stands now; repeat the call", retry_after=0.5
        )


class Unreadable(Unavailable):
    """Nothing is judged where a policy cannot be read."""

    reason = "UNREADABLE_POLICY"

    def __init__(self, error: UnreadablePolicy) -> None:
        super().__init__(f"{error}; write it anew, or go back to the release that wrote it", retry_after=30.0)


class BadDocuments(InvalidArgument):
    """Texts that hold no policies, or wrong ones."""

    reason = "BAD_POLICY"

    def __init__(self, violations: Sequence[Violation]) -> None:
        first = f"{violations[0].field}: {violations[0].description}" if violations else "they hold no policy"
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        super().__init__(f"the policies cannot be taken: {first}{more}", violations=violations)


class UnknownNamespace(BadDocuments):
    """Documents of v1 name a namespace of no project, or of one that was made a moment ago."""


class PolicyRefused(FailedPrecondition):
    """The policies are in order by themselves, and cannot stand beside what is there."""

    reason = "POLICY_CLASH"

    def __init__(self, problems: Sequence[Problem]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(
            f"{problems[0].message}{more}", violations=[Violation(each.path, each.message) for each in problems]
        )


class PolicyForbidden(PermissionDenied):
    """The caller may not write policies there."""

    def __init__(self, scopes: Iterable[Scope]) -> None:
        where = ", ".join(str(each) for each in scopes)
        super().__init__(f"you may not write policies of: {where}; it takes the verb policies.write there")


class PolicyChanged(Aborted):
    """Another write has changed the policy meanwhile."""

    reason = "POLICY_CHANGED"

    def __init__(self, expected: int, now: int) -> None:
        there = f"it has version {now}" if now else "there is none"
        super().__init__(f"version {expected} of the policy was expected and {there}; read it again")


class NoSuchPolicy(NotFound):
    """There is none."""

    reason = "NO_SUCH_POLICY"

    def __init__(self, shown: str) -> None:
        super().__init__(f"there is no policy {shown}")


class NoSuchUnit(NotFound):
    """There is no such department or project."""

    reason = "NO_SUCH_UNIT"

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"{scope} does not exist")
