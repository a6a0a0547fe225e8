"""What only HTTP can go wrong with. Each says its status where the gRPC code of its parent would say another.

InvalidArgument   BodyTooLarge 413, BadBody 400, PolicyRefuses 400, WrongMediaType 415
PermissionDenied  ForeignHost 403, ForeignOrigin 403
NotFound          NoSuchRoute 404
Unimplemented     WrongMethod 405, NotOffered 501
ResourceExhausted Busy 503
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster_chassis.errors import InvalidArgument, NotFound, PermissionDenied, ResourceExhausted, Unimplemented


class BodyTooLarge(InvalidArgument):
    """The body has more bytes than any body may have."""

    reason = "BODY_TOO_LARGE"
    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body has more than {limit} bytes, which is the most that is read")


class BadBody(InvalidArgument):
    """The body is not what the route takes."""

    reason = "BAD_BODY"


class PolicyRefuses(InvalidArgument):
    """Policy does not admit the workload: its name is free again, and it is deleted, so that no list shows it."""

    reason = "POLICY_REFUSES"
    said = "The workload request does not comply with the policy set by the administrator"

    def __init__(self, issues: Sequence[str]) -> None:
        super().__init__("; ".join(issues) or "policy refuses the workload")
        parts = [issue.partition(": ") for issue in issues]
        self.members = {
            "complianceIssues": [
                {"field": path if details else "", "details": details or path} for path, _, details in parts
            ]
        }


class WrongMediaType(InvalidArgument):
    """A body in a media type that a form or a simple request of a foreign page could have, or in none."""

    reason = "WRONG_MEDIA_TYPE"
    status = 415

    def __init__(self, given: str, allowed: Sequence[str]) -> None:
        said = f"the body's content-type is {given!r}" if given else "the body has no content-type"
        super().__init__(f"{said}; send one of {', '.join(allowed)}")


class ForeignHost(PermissionDenied):
    """The request names a host that this service is not called by."""

    reason = "FOREIGN_HOST"

    def __init__(self, given: str) -> None:
        super().__init__(
            f"the request's Host is {given!r}, and this service does not go by that name: use the address that "
            "`muster status` shows, or add the name to MUSTER_PUBLIC_HOSTS of submission"
        )


class ForeignOrigin(PermissionDenied):
    """A page of another origin sent the request."""

    reason = "FOREIGN_ORIGIN"

    def __init__(self, given: str) -> None:
        super().__init__(
            f"the request comes from {given!r}: only pages of this very address may call the API from a browser; a "
            "page behind a proxy needs the proxy's name in MUSTER_PUBLIC_HOSTS of submission"
        )


class NoSuchRoute(NotFound):
    """Nothing has this path."""

    reason = "NO_SUCH_ROUTE"


class WrongMethod(Unimplemented):
    """The path is there, the method is not."""

    reason = "WRONG_METHOD"
    status = 405

    def __init__(self, method: str, path: str, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"{path} does not take {method}; it takes {self.allowed}")


class NotOffered(Unimplemented):
    """A route of the 2.18 API that Muster does not have; the message says why."""

    reason = "NOT_OFFERED"


class Busy(ResourceExhausted):
    """Too many requests are under way in this process."""

    reason = "BUSY"
    status = 503
