"""Which identities a stack's Kafka has and what each may do, and how the broker is made to agree.

Called by kafka.py at every format and by the keeper. Holds: what the broker should know follows from the files of the
identities and the catalogue of topics alone, so that a Kafka that was wiped, restored or upgraded is mended from them.

The record `muster-access` lies in Kafka's own log folder and says, by digests, which identities that log knows: it goes
when the log goes and is restored when the log is restored.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from muster_chassis import acls
from muster_chassis.acls import Acl
from muster_chassis.topics import SERVICES, TRIGGERS, named
from muster_stack.bus import admin
from muster_stack.bus.checkpoint import access_batch
from muster_stack.bus.identities import ADMIN, BROKER, OWN, Identities, Identity, IdentityError, write_private
from muster_stack.bus.wire import Connection
from muster_stack.errors import StackError

AGENT: Final = "agent-"
PRODUCER: Final = "producer-"
_RECORD: Final = "muster-access"
_SECONDS: Final = 10.0  # for one request to a broker that serves


class AccessNotSettled(StackError):
    """The broker's users and access rules could not be brought up to date; tried again."""


class Access:
    """The identities and rules of one stack's Kafka."""

    def __init__(self, identities: Identities, clusters: Iterable[str] = ()) -> None:
        """`clusters`: those declared, whose agents need an identity."""
        self.identities = identities
        self._names = (*OWN, *SERVICES, *(acls.agent(cluster) for cluster in clusters))

    def ensure(self) -> None:
        """Makes the identities that are missing."""
        self.identities.ensure(self._names)

    def own(self) -> tuple[Identity, Identity]:
        """The broker's identity and the stack's, who may do everything. Raises IdentityError."""
        return self.identities.of(BROKER), self.identities.of(ADMIN)

    def rules(self) -> set[Acl]:
        """What the identities may do, from the catalogue of topics."""
        return {rule for name in self.identities.all() for rule in rules_of(name)}

    def first_records(self) -> bytes:
        """What a new Kafka begins with, besides its features."""
        return access_batch(self.identities.all().values(), sorted(self.rules()))

    def is_known_to(self, log: Path) -> bool:
        """Whether the Kafka of this log folder lets the broker and the stack log in as they do now."""
        known = _read(log)
        return all(known.get(identity.user) == _digest(identity) for identity in self.own())

    def note(self, log: Path) -> None:
        """Writes down that this log knows the identities as they are now."""
        self._write(log, self.identities.all().values(), self.rules())

    def settle(self, port: int, log: Path) -> None:
        """Makes the broker agree with the files, where its record does not say that it does. Raises StackError."""
        wanted, rules = self.identities.all(), self.rules()
        known = _read(log)
        if known == _record(wanted.values(), rules):
            return
        try:
            with Connection(port, self.identities.of(ADMIN), seconds=_SECONDS) as connection:
                changed = [each for each in wanted.values() if known.get(each.user) != _digest(each)]
                admin.put_users(connection, changed)
                present = admin.acls(connection)
                admin.put_acls(connection, sorted(rules - present))
                admin.remove_acls(connection, sorted(present - rules))
                admin.shut_out(connection, set(admin.users(connection)) - {each.user for each in wanted.values()})
            self._write(log, wanted.values(), rules)
        except (OSError, struct.error) as error:
            raise AccessNotSettled(f"Kafka's users and access rules are not up to date: {error}") from error

    def grant_agent(self, cluster: str) -> str:
        """Gives a cluster's agent an identity where it has none; returns its name. `settle` makes it known.

        Raises ValueError for a cluster id that cannot be one.
        """
        acls.of_agent(cluster)
        return self._grant(acls.agent(cluster))

    def grant_producer(self, topic: str, name: str) -> str:
        """Gives a program outside an identity that may write `topic`; returns its name. `settle` makes it known.

        Raises ValueError for a topic that such programs may not write.
        """
        try:
            acls.of_producer(name, named(topic))
        except KeyError:
            raise ValueError(f"there is no topic {topic!r}; programs outside may write {TRIGGERS.name}") from None
        return self._grant(f"{PRODUCER}{name}")

    def revoke(self, name: str) -> None:
        """Takes the identity of a program outside or of an agent away. Raises ValueError where there is none."""
        file = self.identities.file(name)
        if name in self._names or not file.exists():
            given = sorted(set(self.identities.all()) - set(self._names))
            raise ValueError(f"{name!r} cannot be revoked; those that were given out are: {', '.join(given) or 'none'}")
        file.unlink()

    def rotate(self, port: int, log: Path) -> list[str]:
        """Gives every identity a new password; returns the names. Kafka has to be started again afterwards.

        The broker and the stack get new users, which Kafka knows before a file names them; their old users work until
        the next `settle` shuts them out. Raises StackError.
        """
        others = [name for name in self.identities.all() if name not in OWN]
        try:
            for name in others:
                self.identities.put(name, self.identities.fresh(name))
        finally:
            # At once, and also where the disk is full half-way: until then nothing can connect with a new password.
            self.settle(port, log)
        fresh = {name: self.identities.fresh(name) for name in OWN}
        try:
            with Connection(port, self.identities.of(ADMIN), seconds=_SECONDS) as connection:
                admin.put_users(connection, fresh.values())
        except (OSError, struct.error) as error:
            raise AccessNotSettled(f"the broker's own users are still the old ones, Kafka fails: {error}") from error
        self._write(log, [*self.identities.all().values(), *fresh.values()], self.rules())
        for name, identity in fresh.items():
            self.identities.put(name, identity)
        return [*OWN, *others]

    def _grant(self, name: str) -> str:
        self.identities.ensure([name])
        return name

    def _write(self, log: Path, identities: Iterable[Identity], rules: Iterable[Acl]) -> None:
        write_private(log / _RECORD, json.dumps(_record(identities, rules), indent=1) + "\n")


def rules_of(name: str) -> Sequence[Acl]:
    """What one identity may do; nothing for the broker and the stack, whom Kafka's settings name."""
    if name in SERVICES:
        return acls.of_service(name)
    if name.startswith(AGENT):
        return acls.of_agent(name.removeprefix(AGENT))
    if name.startswith(PRODUCER):
        return acls.of_producer(name, TRIGGERS)
    if name in OWN:
        return ()
    raise IdentityError(f"{name!r} is not an identity of this stack: its file does not belong there")


def _record(identities: Iterable[Identity], rules: Iterable[Acl]) -> Mapping[str, str]:
    listed = "\n".join(repr(rule) for rule in sorted(rules))
    return {**{each.user: _digest(each) for each in identities}, "": hashlib.sha256(listed.encode()).hexdigest()}


def _read(log: Path) -> Mapping[str, str]:
    try:
        known: dict[str, str] = json.loads((log / _RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return known


def _digest(identity: Identity) -> str:
    # Of 256 random bits: the password cannot be found from it.
    return hashlib.sha256(f"{identity.user} {identity.password}".encode()).hexdigest()
