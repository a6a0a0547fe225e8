"""What can go wrong in policy, beside what the chassis knows.

BadDocument     the policy file is no policy        ends the start; a later change is refused and the old one stays
Reject          (chassis) a submission that is none goes to the dead letters
ServiceError    (chassis) answers of PoliciesService
"""

from __future__ import annotations

from muster_chassis.errors import InvalidArgument
from muster_policy.domain.document import BadDocument

__all__ = ["BadDocument", "InvalidArgument"]
