"""The verbs `muster keys list` and `muster keys rotate ..`: what a stack signs and seals with, and new keys for it.

Each kind of key adds its own verb to `rotate`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Final

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from muster_stack import authority, identities, rotation, sealing_keys
from muster_stack.commands import Data
from muster_stack.errors import StackError
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout

app: Final = App(name="keys", help="Keys and passwords of a stack.")
rotate: Final = App(name="rotate", help="Replace keys of a stack, running or not.")
app.command(rotate)


@app.command(name="list")
def list_keys(*, data: Data = None, as_json: Annotated[bool, Parameter(name=["--json"], negative="")] = False) -> int:
    """List the keys of a stack by kind and holder, certificates with their last day; no secret is shown."""
    try:
        layout = Layout.of(data)
        found = [*rotation.list_keys(layout), *authority.list_keys(layout)]
    except StackError as error:
        return _complain(error)
    if as_json:
        sys.stdout.write(json.dumps([asdict(one) for one in found]) + "\n")
        return 0
    table = Table("KIND", "HOLDER", "ID", "SINCE", "UNTIL", "STATE", box=None, pad_edge=False)
    for one in found:
        table.add_row(one.kind, one.holder, one.id, one.since, one.until, one.state)
    Console().print(table)
    return 0


@rotate.command(name="service")
def rotate_service(*, data: Data = None) -> int:
    """Give every service a new key for its calls.

    A running stack follows within 3 seconds and refuses the old keys from then on; no call fails.
    """
    return _done(lambda: rotation.rotate(Layout.of(data), identities.SERVICES), "new keys for calls")


@rotate.command(name="signing")
def rotate_signing(*, data: Data = None) -> int:
    """Give the scheduler a new key for assignments.

    A running scheduler begins a new term and publishes every assignment again under the new key. Records of the key
    before still count until the next rotation, so run the command twice where a key was stolen. An agent on another
    machine obeys the new key once it has the new trust file (`muster clusters register ID --trust-file FILE`) and was
    started again.
    """
    return _done(lambda: rotation.rotate(Layout.of(data), [identities.SIGNING]), "new key for assignments")


@rotate.command(name="sealing")
def rotate_sealing(*, data: Data = None) -> int:
    """Give submission a new key for stored credentials.

    A running submission seals everything again within minutes. The old keys stay in the file: a PostgreSQL that is
    restored from before the rotation needs them.
    """
    return _done(lambda: [sealing_keys.rotate(Layout.of(data).sealing_keys)], "new key for stored credentials")


@rotate.command(name="kafka")
def rotate_kafka(*, data: Data = None) -> int:
    """Give every user of Kafka a new password.

    Kafka starts again, which ends the connections that were opened with old passwords. Services and agents read the new
    ones by themselves; programs outside have to read their password files again.
    """
    try:
        names = Stack(Layout.of(data)).rotate_kafka()
    except StackError as error:
        return _complain(error)
    sys.stdout.write(f"new passwords for {', '.join(names)}\n")
    return 0


@app.command(name="certificate")
def make_certificate(*hosts: str, data: Data = None) -> int:
    """Make a certificate for submission's gRPC, signed by the stack's own authority.

    The first time it makes the authority too. A submission that serves the files follows within a second.

    Args:
        hosts: Names and addresses by which clients reach submission; left out: those of the certificate before.
        data: The stack's data folder.
    """
    try:
        made = authority.issue(Layout.of(data), hosts)
    except StackError as error:
        return _complain(error)
    sys.stdout.write(
        f"a certificate for {', '.join(made.hosts)}, until {made.expires:%Y-%m-%d}\n"
        f"submission: MUSTER_TLS_CERTIFICATE_FILE={made.certificate} MUSTER_TLS_KEY_FILE={made.key}\n"
        f"agents: MUSTER_SUBMISSION_CA_FILE, clients: MUSTER_SERVER_CA, each a copy of {made.authority}\n"
    )
    return 0


@rotate.command(name="ca")
def rotate_ca(*, data: Data = None) -> int:
    """Give the stack a new authority for certificates.

    Copy its file to agents and clients, then run `muster keys certificate`. The authority before is in the file until
    the next rotation, so rotate twice where its key was stolen.
    """
    return _done(lambda: [str(authority.rotate(Layout.of(data)))], "a new authority, with the one before")


def _done(work: Callable[[], list[str]], what: str) -> int:
    try:
        made = work()
    except StackError as error:
        return _complain(error)
    sys.stdout.write(f"{what}: {', '.join(made)}\n")
    return 0


def _complain(error: StackError) -> int:
    sys.stderr.write(f"{error}\n")
    return 1
