"""Verbs about who may do what: roles, applications, the audit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from cyclopts import Parameter

from muster.api.v1 import access_pb2 as api
from muster_client.cli.exits import Exit
from muster_client.cli.moments import moment
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.render import access as shown
from muster_client.errors import InvalidInput

_NO_OPTIONS: Final = Common()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Where:
    """A place beside the project (-p)."""

    department: Annotated[str, Parameter(name="--department")] = ""
    """In this department with its projects."""
    cluster: Annotated[str, Parameter(name="--cluster")] = ""
    """At this cluster."""
    tenant: Annotated[bool, Parameter(name="--tenant", negative="")] = False
    """In the whole tenant."""

    def project(self, common: Common) -> str:
        """The project, where no other place was named: it may come from the environment."""
        return "" if self.department or self.cluster or self.tenant else common.project or ""


_NOWHERE: Final = Where()


async def grant(
    role: str,
    *,
    user: Annotated[str, Parameter(name="--user")] = "",
    group: Annotated[str, Parameter(name="--group")] = "",
    application: Annotated[str, Parameter(name="--application")] = "",
    issuer: Annotated[str, Parameter(name="--issuer")] = "",
    where: Where = _NOWHERE,
    common: Common = _NO_OPTIONS,
) -> int:
    """Gives a role in a project (-p), a department, a cluster or the whole tenant.

    Args:
        role: viewer, researcher, project-admin, department-admin, system-admin or cluster-agent.
        user: To this subject, as tokens name it.
        group: To this group, as tokens name it.
        application: To this application, by id or name.
        issuer: Only where this issuer vouches for the user or group.
        where: The place.
        common: Connection.
    """
    kind, holder = _one({"subject": user, "group": group, "application": application}, "--user, --group, --application")
    places = {"project": where.project(common), "department": where.department, "cluster": where.cluster}
    given = {**places, "tenant": "-" if where.tenant else ""}
    scope_kind, scope = _one(given, "-p PROJECT, --department, --cluster, --tenant")
    rule = api.AccessRule(
        holder_kind=kind,
        holder=holder,
        issuer=issuer,
        role=role,
        scope_kind=scope_kind,
        scope="" if where.tenant else scope,
    )
    async with common.muster() as muster:
        made = await muster.access.grant(rule)
    if common.json:
        emit(made)
    else:
        say(f"rule {made.id}: {shown.sentence(made)}")
    return Exit.OK


async def revoke(rule: int, *, common: Common = _NO_OPTIONS) -> int:
    """Takes a role away.

    Args:
        rule: The number of the rule, as `muster access list` shows it.
        common: Connection.
    """
    if rule < 1:
        raise InvalidInput(f"rule {rule}: a number as `muster access list` shows it is expected")
    async with common.muster() as muster:
        gone = await muster.access.revoke(rule)
    if common.json:
        emit(gone)
    else:
        say(f"rule {gone.id} is gone: {shown.sentence(gone)}")
    return Exit.OK


async def list_rules(holder: str = "", *, common: Common = _NO_OPTIONS) -> int:
    """Lists who has which role where, as far as you may see it.

    Args:
        holder: Only the rules of this user, group or application.
        common: Connection.
    """
    async with common.muster() as muster:
        found = [each async for each in muster.access.rules(holder=holder, project=common.project or "")]
    if common.json:
        emit(found)
    else:
        say(shown.rules(found) if found else "no rules that you may see; `muster access grant` makes one")
    return Exit.OK


async def whoami(*, common: Common = _NO_OPTIONS) -> int:
    """Says who you are to the control plane, and which roles you have."""
    async with common.muster() as muster:
        me = await muster.access.who_am_i()
    if common.json:
        emit(me)
    else:
        say(shown.caller(me))
    return Exit.OK


async def can(verb: str, *, where: Where = _NOWHERE, common: Common = _NO_OPTIONS) -> int:
    """Says whether you may do something. The exit code is 0 for yes and that of a refusal for no.

    Args:
        verb: Such as workloads.create; a wrong one is answered with all that there are.
        where: The place; -p names a project.
        common: Connection.
    """
    async with common.muster() as muster:
        allowed = await muster.access.can(
            verb, project=where.project(common), department=where.department, cluster=where.cluster
        )
    if common.json:
        emit({"allowed": allowed})
    else:
        say("yes" if allowed else "no")
    return Exit.OK if allowed else Exit.NOT_ALLOWED


async def list_applications(*, common: Common = _NO_OPTIONS) -> int:
    """Lists the applications."""
    async with common.muster() as muster:
        found = [each async for each in muster.applications.list()]
    if common.json:
        emit(found)
    else:
        say(shown.applications(found) if found else "no applications; `muster applications create` makes one")
    return Exit.OK


async def create_application(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Makes an application and shows its secret, once.

    Args:
        name: Its name.
        common: Connection.
    """
    async with common.muster() as muster:
        made = await muster.applications.create(name)
    _secret(made.application, made.secret, made, common)
    return Exit.OK


async def rotate_application(application: str, *, common: Common = _NO_OPTIONS) -> int:
    """Gives an application a new secret; tokens made with the old one count no more.

    Args:
        application: Its id or name.
        common: Connection.
    """
    async with common.muster() as muster:
        made = await muster.applications.rotate(application)
    _secret(made.application, made.secret, made, common)
    return Exit.OK


async def revoke_application(application: str, *, common: Common = _NO_OPTIONS) -> int:
    """Ends an application with its roles and tokens.

    Args:
        application: Its id or name.
        common: Connection.
    """
    async with common.muster() as muster:
        gone = await muster.applications.revoke(application)
    if common.json:
        emit(gone)
    else:
        say(f"application {gone.name} ({gone.id}) has ended")
    return Exit.OK


async def audit(
    *,
    since: Annotated[str, Parameter(name="--since")] = "",
    who: Annotated[str, Parameter(name="--who")] = "",
    what: Annotated[str, Parameter(name="--what")] = "",
    limit: Annotated[int, Parameter(name="--limit")] = 50,
    common: Common = _NO_OPTIONS,
) -> int:
    """Lists who did what and what came of it, the newest first.

    Args:
        since: Only what came since then: 30m, 12h, 7d, or a time such as 2026-01-31T12:00.
        who: Only what this user or application did.
        what: Only this verb, such as workloads.create, or all that begin so, such as workloads.
        limit: At most this many.
        common: Connection.
    """
    if limit < 1:
        raise InvalidInput(f"--limit {limit}: 1 or more is expected")
    begin = moment(since, datetime.now(UTC)) if since else None
    found = []
    async with common.muster() as muster:
        async for each in muster.access.audit(since=begin, who=who, what=what, project=common.project or ""):
            found.append(each)
            if len(found) == limit:
                break
    if common.json:
        emit(found)
    else:
        say(shown.audit(found) if found else "nothing of that was done or tried")
    return Exit.OK


def _one(given: dict[str, str], options: str) -> tuple[str, str]:
    """The one option that was given. Raises InvalidInput."""
    said = [(name, value) for name, value in given.items() if value]
    if len(said) != 1:
        raise InvalidInput(f"exactly one of {options} is expected; {len(said) or 'none'} of them was given")
    return said[0]


def _secret(
    application: api.Application,
    secret: str,
    answer: api.CreateApplicationResponse | api.RotateApplicationResponse,
    common: Common,
) -> None:
    if common.json:
        emit(answer)
        return
    say(f"application: {application.name}\nid:          {application.id}\nsecret:      {secret}")
    note("the secret is shown this once and kept nowhere; `muster applications rotate` makes another")
