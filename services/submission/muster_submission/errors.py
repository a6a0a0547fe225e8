"""What can go wrong at the front door, and which gRPC code each becomes.

ServiceError (chassis)
  DraftRefused        INVALID_ARGUMENT     a draft, with every violation
  BadQuestion         INVALID_ARGUMENT     a page token, cursor or size that cannot be read
  NoSuchProject       NOT_FOUND            says which projects there are
  NoSuchTemplate      NOT_FOUND
  NoSuchTrigger       NOT_FOUND
  NoSuchFiring        NOT_FOUND
  NoSuchWorkload      NOT_FOUND
  NoSuchDepartment    NOT_FOUND
  NoSuchCluster       NOT_FOUND
  NoSuchNodePool      NOT_FOUND
  StillInUse          FAILED_PRECONDITION  what is to go holds something that has to go first
  ChangedMeanwhile    ABORTED              somebody else has changed it since the caller looked
  NameTaken           ALREADY_EXISTS       a workload, project or namespace of that name is there
  PhaseForbids        FAILED_PRECONDITION  the phase does not allow it
  NoSealingKey        FAILED_PRECONDITION  a credential cannot be stored or opened: the key is not there
  CannotReplay        FAILED_PRECONDITION  the firing still waits, or its rule takes the event no more
  FieldsFixed         FAILED_PRECONDITION  names the fields that cannot change while it is there
  CursorTooOld        FAILED_PRECONDITION  list again
  Stopping            UNAVAILABLE          this instance stops; go on with another
  NoAgent             UNAVAILABLE          the cluster's agent is not connected
  OwnerSilent         UNAVAILABLE          the service that owns the answer does not answer; names it
  LogTrouble          FAILED_PRECONDITION  the agent has nothing (more) to send
  ReaderTooSlow       RESOURCE_EXHAUSTED   a log's reader did not keep up
  DiskReserveSpent    RESOURCE_EXHAUSTED   the disk of the control plane is nearly full
Exception
  ExportFailed        a file of the archive cannot be written
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_chassis.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
    Violation,
)
from muster_submission.domain.problems import Problem


def violations(problems: Sequence[Problem]) -> list[Violation]:
    """Problems as gRPC field violations: the path, then the place and the sentence."""
    return [Violation(problem.path, problem.sentence()) for problem in problems]


class DraftRefused(InvalidArgument):
    """What was sent breaks rules that it can never meet as it is."""

    reason = "DRAFT_REFUSED"

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        said = "; ".join(f"{one.path}: {one.sentence()}" if one.path else one.sentence() for one in problems[:5])
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""  # noqa: PLR2004 - what fits in a line
        super().__init__(f"{what} is refused: {said}{more}", violations=violations(problems))
        self.problems = tuple(problems)


class BadQuestion(InvalidArgument):
    """A question that cannot be read."""

    reason = "BAD_QUESTION"


class NoSuchProject(NotFound):
    """The project does not exist."""

    reason = "NO_SUCH_PROJECT"


class NoSuchDepartment(NotFound):
    """The department does not exist."""

    reason = "NO_SUCH_DEPARTMENT"


class NoSuchCluster(NotFound):
    """The cluster does not exist."""

    reason = "NO_SUCH_CLUSTER"


class NoSuchNodePool(NotFound):
    """The node pool does not exist."""

    reason = "NO_SUCH_NODE_POOL"


class StillInUse(FailedPrecondition):
    """It holds something that has to go first."""

    reason = "STILL_IN_USE"


class ChangedMeanwhile(Aborted):
    """Somebody else has changed it since the caller looked."""

    reason = "CHANGED_MEANWHILE"


class NoSuchTemplate(NotFound):
    """The template does not exist."""

    reason = "NO_SUCH_TEMPLATE"

    @classmethod
    def named(cls, project: str, name: str) -> NoSuchTemplate:
        """For somebody who asks for that one."""
        where = f"in project {project!r}" if project else "for all projects"
        return cls(f"there is no template {name!r} {where}; `muster templates list` shows them")


class NoSuchTrigger(NotFound):
    """The trigger does not exist."""

    reason = "NO_SUCH_TRIGGER"

    def __init__(self, project: str, name: str) -> None:
        super().__init__(f"trigger {name!r} does not exist in project {project!r}; `muster triggers list` shows them")


class NoSuchFiring(NotFound):
    """The firing does not exist, or not any more."""

    reason = "NO_SUCH_FIRING"

    def __init__(self, project: str, firing: str) -> None:
        super().__init__(
            f"firing {firing!r} does not exist in project {project!r}; `muster triggers firings` shows those that do"
        )


class NoSuchWorkload(NotFound):
    """The workload does not exist."""

    reason = "NO_SUCH_WORKLOAD"


class NameTaken(AlreadyExists):
    """Something of that name is there."""

    reason = "NAME_TAKEN"


class PhaseForbids(FailedPrecondition):
    """The phase of the workload does not allow it."""

    reason = "PHASE_FORBIDS"


class NoSealingKey(FailedPrecondition):
    """A credential cannot be sealed or opened."""

    reason = "NO_SEALING_KEY"

    def __init__(self, why: str = "a credential stands in the spec, and there is no key to store it under") -> None:
        super().__init__(
            f"{why}; MUSTER_SECRET_KEYS_FILE names the file of keys. Or keep it in a secret of the project and write "
            "SECRET:name,key"
        )


class CannotReplay(FailedPrecondition):
    """The firing cannot fire again."""

    reason = "CANNOT_REPLAY"


class FieldsFixed(FailedPrecondition):
    """These fields cannot change while the workload is there."""

    reason = "FIELDS_FIXED"


class CursorTooOld(FailedPrecondition):
    """The change log does not reach back to the cursor."""

    reason = "CURSOR_TOO_OLD"


class Stopping(Unavailable):
    """The process stops, and long calls end."""

    reason = "STOPPING"


class NoAgent(Unavailable):
    """The agent of the cluster is not connected."""

    reason = "NO_AGENT"

    def __init__(self, cluster: str, why: str = "") -> None:
        """why: the cause, if the agent is connected and does not answer, or its instance cannot be called."""
        trouble = f"does not answer: {why}" if why else "is not connected"
        super().__init__(
            f"the agent of cluster {cluster} {trouble}; the call needs this agent: check that it runs, and repeat",
            metadata={"service": f"agent/{cluster}"},
            retry_after=2.0,
            reason="AGENT_SILENT" if why else None,
        )


class OwnerSilent(Unavailable):
    """A service that owns the answer does not answer."""

    reason = "SERVICE_SILENT"

    def __init__(self, service: str, where: Sequence[str], why: str) -> None:
        super().__init__(
            f"{service} does not answer at {', '.join(where)} ({why}); the other services go on, repeat the call later",
            metadata={"service": service},
            retry_after=1.0,
        )


class LogTrouble(FailedPrecondition):
    """The agent has no (more) log to send."""

    reason = "NO_LOG"


class DiskReserveSpent(ResourceExhausted):
    """The disk on which everything accepted is kept is below its reserve."""

    reason = "DISK_RESERVE_SPENT"


class ReaderTooSlow(ResourceExhausted):
    """The reader of a log did not keep up with it."""

    reason = "READER_TOO_SLOW"


class ExportFailed(Exception):
    """A file of the archive cannot be written."""
