"""`muster login` and `muster logout`: which control plane this user speaks to, and with whose word.

Holds: a secret is never an argument, which every process of the machine could read; it is asked for without echo, or
read from a file or standard input; what is stored is readable by its owner alone, and only after it was tried.
"""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster_client import logins, tls
from muster_client.address import find_server
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.render import access as shown
from muster_client.errors import InvalidInput
from muster_client.login import read_application
from muster_client.muster import Muster
from muster_kernel.ids import is_uuid

_NO_OPTIONS = Common()


async def login(
    *,
    application: str = "",
    file: Annotated[Path | None, Parameter(name=["--file", "-f"])] = None,
    common: Common = _NO_OPTIONS,
) -> int:
    """Stores a control plane's address and credentials for the commands to come.

    With an application its secret is exchanged for tokens, which are renewed as they end. Without one it takes a token
    (--token, MUSTER_TOKEN, or asked for).

    Args:
        application: The id of an application; its secret is asked for, or read from standard input.
        file: A file with the id and secret of an application, as JSON with `id` and `secret`.
        common: Connection.
    """
    server = find_server(common.server)
    if file is not None:
        kept: logins.Credentials = logins.Application(*read_application(file))
    elif application:
        if not is_uuid(application):
            raise InvalidInput(f"--application {application}: the id, a UUID as `muster applications list` shows it")
        kept = logins.Application(application, _secret("secret"))
    else:
        kept = logins.Token(common.token or _secret("token"))
    path = logins.store(server, kept, current=False)
    try:
        async with Muster(server) as muster:
            me = await muster.access.who_am_i()
    except BaseException:
        path.unlink(missing_ok=True)  # what was refused is not kept
        raise
    logins.store(server, kept, current=True)
    if common.json:
        emit({"server": server, "subject": me.subject, "name": me.subject_name})
    else:
        say(f"{server}: {shown.caller(me)}")
    return Exit.OK


async def logout(*, common: Common = _NO_OPTIONS) -> int:
    """Forgets the stored credentials of a control plane (--server), else of the one that was logged in to last."""
    server = tls.named(common.server) if common.server else logins.current()
    if server is None or not logins.forget(server):
        note("nothing is stored: there was no login")
        return Exit.OK
    if common.json:
        emit({"server": server})
    else:
        say(f"{server}: its credentials are deleted from this machine")
    return Exit.OK


def _secret(what: str) -> str:
    """Asks at a terminal without echo, else reads a line of standard input. Raises InvalidInput."""
    text = getpass.getpass(f"{what}: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not text.strip():
        raise InvalidInput(f"no {what} was given: type it, or give it on standard input")
    return text.strip()
