"""The identities of a stack's Kafka: a user and a password each, in a folder that only the stack's user reads.

    NAME              the password of a service, an agent or a producer outside; MUSTER_KAFKA_PASSWORD_FILE names it
    broker, admin     `USER PASSWORD` of the broker itself and of the stack, which may do everything

Holds: the files are the truth, the broker is made to agree with them; a file is written whole or not at all, with mode
0600 from its first moment. The broker and the stack get a new user name with each new password, so that the old one
works until the new one is in use.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_stack.bus.scram import MECHANISM
from muster_stack.errors import StackError

BROKER: Final = "broker"
ADMIN: Final = "admin"
OWN: Final = (BROKER, ADMIN)
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST: Final = 80
_SHARED: Final = 0o077


class IdentityError(StackError):
    """An identity's file cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of Kafka."""

    user: str
    password: str


def client_options(bootstrap: str, identity: Identity) -> dict[str, str]:
    """The arguments with which aiokafka's clients connect as `identity`."""
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": identity.user,
        "sasl_plain_password": identity.password,
    }


class Identities:
    """The files of one stack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ensure(self, names: Iterable[str]) -> None:
        """Makes the files that are missing."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            if not self.file(name).exists():
                self.put(name, self.fresh(name))

    def file(self, name: str) -> Path:
        """The file of one identity. Raises IdentityError for a name that cannot be one."""
        if len(name) > _LONGEST or _NAME.fullmatch(name) is None:
            raise IdentityError(
                f"{name!r} cannot be a user of Kafka: lower-case letters, digits and '-', beginning with a letter, "
                f"at most {_LONGEST}"
            )
        return self.folder / name

    def fresh(self, name: str) -> Identity:
        """A new password for `name`, and for the broker and the stack a new user too. Nothing is written."""
        return Identity(self._other_user(name) if name in OWN else name, secrets.token_urlsafe(32))

    def _other_user(self, name: str) -> str:
        """Of two users that take turns, the one that is not in use: Kafka keeps every user that it ever knew."""
        first, second = f"{name}-a", f"{name}-b"
        try:
            return second if self.of(name).user == first else first
        except IdentityError:
            return first

    def put(self, name: str, identity: Identity) -> None:
        """Writes an identity's file."""
        words = (identity.user, identity.password) if name in OWN else (identity.password,)
        write_private(self.file(name), " ".join(words) + "\n")

    def of(self, name: str) -> Identity:
        """One identity. Raises IdentityError where its file is missing, damaged or readable by others."""
        path = self.file(name)
        try:
            if stat.S_IMODE(path.stat().st_mode) & _SHARED:
                raise IdentityError(f"{path} holds a password and can be read by others: chmod 600 {path}")
            words = path.read_text().split()
        except (OSError, UnicodeDecodeError) as error:
            raise IdentityError(
                f"{path} cannot be read ({error}): remove it, and the next `muster up` makes a new one"
            ) from None
        if len(words) != (2 if name in OWN else 1):
            raise IdentityError(f"{path} is damaged: remove it, and the next `muster up` makes a new one")
        return Identity(words[0], words[1]) if name in OWN else Identity(name, words[0])

    def all(self) -> Mapping[str, Identity]:
        """Every identity by name. Raises IdentityError."""
        try:
            names = sorted(path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        except OSError as error:
            raise IdentityError(f"{self.folder} cannot be read ({error}): the next `muster up` makes it") from None
        return {name: self.of(name) for name in names}


def write_private(path: Path, content: str) -> None:
    """Replaces a file, whole or not at all; never readable by others, not even for a moment."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
