"""What can go wrong in policy, beside what the chassis knows.

BadDocument     the policy file is no policy        ends the start; a later change is refused and the old one stays
Reject          (chassis) a submission that is none goes to the dead letters
ServiceError    (chassis) answers of PoliciesService
  NotHeardYet   UNAVAILABLE: a question names a project, or a version of one, of which policy has not heard yet
"""

from __future__ import annotations

from muster_chassis.errors import InvalidArgument, Unavailable
from muster_policy_engine.documents.document import BadDocument

__all__ = ["BadDocument", "InvalidArgument", "NotHeardYet"]


class NotHeardYet(Unavailable):
    """A project is known to submission and not yet to policy: it is a moment behind."""

    reason = "NOT_HEARD_YET"

    def __init__(self, project: str) -> None:
        super().__init__(
            f"policy has not yet heard of project {project!r} as it stands now; repeat the call", retry_after=0.5
        )
