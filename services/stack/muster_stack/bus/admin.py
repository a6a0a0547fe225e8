"""Users and access rules of a running broker: what is there, and how it changes.

Called by access.py. Each function is one request; a broker that refuses it raises AdminError with its own words.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Collection, Iterable
from typing import Final

from muster_chassis.acls import Acl, Operation, Pattern, Resource
from muster_stack.bus import scram
from muster_stack.bus.identities import Identity
from muster_stack.bus.wire import Connection, Reader, compact, number, text
from muster_stack.errors import StackError

PRINCIPAL: Final = "User:"
_DESCRIBE_ACLS, _CREATE_ACLS, _DELETE_ACLS = 29, 30, 31
_DESCRIBE_USERS, _ALTER_USERS = 50, 51
_ACLS_VERSION: Final = 1
_ANY: Final = 1
_ALLOW: Final = 3
_SALT: Final = 16
_ANYTHING: Final = struct.pack(">bhbhhbb", _ANY, -1, _ANY, -1, -1, _ANY, _ANY)


class AdminError(StackError):
    """The broker refused a change of users or access rules."""


def users(connection: Connection) -> list[str]:
    """The users that have a password."""
    answer = connection.ask(_DESCRIBE_USERS, 0, number(0) + number(0), flexible=True)  # null: all of them
    answer.number("i")  # throttle time
    _check(answer.number("h"), answer.compact_text(), "users cannot be listed")
    return [_described_user(answer) for _ in range(answer.length())]


def put_users(connection: Connection, identities: Iterable[Identity]) -> None:
    """Gives these users their passwords, whether they were there or not."""
    wanted = [_upsertion(identity) for identity in identities]
    if wanted:
        _alter(connection, number(1) + number(len(wanted) + 1) + b"".join(wanted))


def shut_out(connection: Connection, names: Iterable[str]) -> None:
    """Gives these users a password that is written nowhere; connections that are open stay open.

    They are not removed: where Kafka reads a removal again at its start, before any other user in the order of a hash
    table, it forgets all users of the mechanism (4.1, ScramDelta), and the broker itself cannot log in any more.
    """
    put_users(connection, [Identity(name, secrets.token_urlsafe(32)) for name in sorted(names)])


def acls(connection: Connection) -> set[Acl]:
    """Every rule that the broker has, apart from those that are not of our kind."""
    answer = connection.ask(_DESCRIBE_ACLS, _ACLS_VERSION, _ANYTHING)
    answer.number("i")  # throttle time
    _check(answer.number("h"), answer.text(), "access rules cannot be listed")
    found: set[Acl] = set()
    for _ in range(answer.number("i")):
        found |= _described_acls(answer)
    return found


def put_acls(connection: Connection, rules: Collection[Acl]) -> None:
    """Adds rules."""
    if not rules:
        return
    rows = [_resource(rule) + text(PRINCIPAL + rule.user) + text("*") + _permission(rule) for rule in rules]
    answer = connection.ask(_CREATE_ACLS, _ACLS_VERSION, struct.pack(">i", len(rows)) + b"".join(rows))
    answer.number("i")  # throttle time
    for _ in range(answer.number("i")):
        _check(answer.number("h"), answer.text(), "an access rule cannot be added")


def remove_acls(connection: Connection, rules: Collection[Acl]) -> None:
    """Takes rules away."""
    if not rules:
        return
    rows = [_resource(rule) + text(PRINCIPAL + rule.user) + text("*") + _permission(rule) for rule in rules]
    answer = connection.ask(_DELETE_ACLS, _ACLS_VERSION, struct.pack(">i", len(rows)) + b"".join(rows))
    answer.number("i")  # throttle time
    for _ in range(answer.number("i")):
        _check(answer.number("h"), answer.text(), "an access rule cannot be removed")
        for _ in range(answer.number("i")):
            _check(answer.number("h"), answer.text(), "an access rule cannot be removed")
            _described_rule(answer)


def _upsertion(identity: Identity) -> bytes:
    salt = secrets.token_bytes(_SALT)
    key = scram.salted(identity.password, salt)
    head = compact(identity.user) + struct.pack(">bi", scram.NUMBER, scram.ITERATIONS)
    return head + compact(salt) + compact(key) + number(0)


def _alter(connection: Connection, changes: bytes) -> None:
    answer = connection.ask(_ALTER_USERS, 0, changes + number(0), flexible=True)
    answer.number("i")  # throttle time
    for _ in range(answer.length()):
        user, code, why = answer.compact_text(), answer.number("h"), answer.compact_text()
        answer.tags()
        _check(code, why, f"the user {user} cannot be changed")


def _described_user(answer: Reader) -> str:
    user = answer.compact_text()
    answer.number("h")
    answer.compact_text()
    for _ in range(answer.length()):
        answer.number("b")
        answer.number("i")
        answer.tags()
    answer.tags()
    return user


def _described_acls(answer: Reader) -> set[Acl]:
    kind, name, pattern = answer.number("b"), answer.text(), answer.number("b")
    found = set()
    for _ in range(answer.number("i")):
        principal, host = answer.text(), answer.text()
        operation, permission = answer.number("b"), answer.number("b")
        if permission == _ALLOW and host == "*" and principal.startswith(PRINCIPAL):
            try:
                rule = Resource(kind), name, Pattern(pattern), Operation(operation)
            except ValueError:
                continue  # a rule of another kind, added by other means
            found.add(Acl(principal.removeprefix(PRINCIPAL), *rule))
    return found


def _described_rule(answer: Reader) -> None:
    answer.number("b")
    answer.text()
    answer.number("b")
    answer.text()
    answer.text()
    answer.number("h")


def _resource(rule: Acl) -> bytes:
    return struct.pack(">b", rule.resource) + text(rule.name) + struct.pack(">b", rule.pattern)


def _permission(rule: Acl) -> bytes:
    return struct.pack(">bb", rule.operation, _ALLOW)


def _check(code: int, why: str, what: str) -> None:
    if code:
        raise AdminError(f"{what}: {why or 'no reason'} (Kafka's error {code})")
