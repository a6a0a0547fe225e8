"""The applications that an installation begins with: someone has to be the first administrator.

Called once at start with the files that the installation wrote (mode 0600). Holds: a file makes its application at most
once; one that was revoked since stays so, whatever the file says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec

from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_submission.access_ports import ApplicationBooks, RuleBooks
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import TENANT, Binding, Role, Verb
from muster_submission.domain.bindings import Holder, HolderKind
from muster_submission.handlers.applications import digest

BY: Final = "installation"


class FirstApplication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What such a file holds."""

    id: str
    secret: Annotated[str, msgspec.Meta(min_length=32)]
    role: Role


def read_first(path: Path) -> FirstApplication:
    """The application in a file. Raises ValueError and OSError."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=FirstApplication)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} describes no application: {error}") from error
    if not is_uuid(found.id):
        raise ValueError(f"{path}: id is {found.id!r}, a UUID in lower case is expected")
    return found


async def ensure_first(
    unit: Unit, name: str, first: FirstApplication, applications: ApplicationBooks, rules: RuleBooks
) -> bool:
    """Makes the application with its role in the whole tenant; False where its id or name was taken before."""
    if await applications.add(unit, first.id, name, digest(first.secret), BY) is None:
        return False
    await rules.add(unit, Holder(HolderKind.APPLICATION, first.id), Binding(first.role, TENANT), BY)
    detail = f"created: {name}, {first.role} in the tenant"
    await audit(unit, Entry(Verb.APPLICATIONS_WRITE, f"application/{first.id}", detail=detail))
    return True
