"""Where Kafka is, and as whom a process connects to it.

Made once from the settings and given to every client of Kafka. Holds: the password is read from its file for each new
client, so that a rotated one is used without a restart; a file that others can read is never used.
"""

from __future__ import annotations

import ssl
import stat
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from muster_chassis.key_files import exposed

MECHANISM: Final = "SCRAM-SHA-512"
_LONGEST: Final = 4096  # bytes; a file that is longer is not a password file


class Security(StrEnum):
    """How connections to Kafka are made."""

    PLAINTEXT = "plaintext"
    """No authentication, no encryption: only for a broker that a network or a test protects."""
    SASL_PLAINTEXT = "sasl_plaintext"
    """SCRAM-SHA-512 without encryption: for a broker on the loopback."""
    SASL_SSL = "sasl_ssl"
    """SCRAM-SHA-512 over TLS."""


class CredentialError(OSError):
    """The password file is missing, empty, or readable by others. The message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Broker:
    """The address of Kafka and the identity of one client.

    bootstrap: HOST:PORT separated by commas. user, password_file: needed unless the security is PLAINTEXT.
    ca: the certificates (PEM) that SASL_SSL trusts; None trusts those of the system.
    replication: of topics that are made; fewer where there are fewer brokers. retention: of their records.
    """

    bootstrap: str
    security: Security = Security.PLAINTEXT
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    replication: int = 3
    retention: timedelta = timedelta(days=7)

    @property
    def authenticated(self) -> bool:
        """Whether clients log in."""
        return self.security is not Security.PLAINTEXT

    def options(self) -> dict[str, Any]:
        """The arguments of aiokafka's clients, with the password as the file has it now. Raises CredentialError."""
        given: dict[str, Any] = {"bootstrap_servers": self.bootstrap}
        if not self.authenticated:
            return given
        return {
            **given,
            "security_protocol": self.security.upper(),
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password(),
            "ssl_context": self.context(),
        }

    def password(self) -> str:
        """The password of `user`. Raises CredentialError."""
        if self.password_file is None:
            raise CredentialError(f"Kafka's user {self.user!r} has no password file: set MUSTER_KAFKA_PASSWORD_FILE")
        return read_password(self.password_file)

    def context(self) -> ssl.SSLContext | None:
        """How TLS is spoken; None without TLS. Raises OSError where the certificates cannot be read."""
        if self.security is not Security.SASL_SSL:
            return None
        return ssl.create_default_context(cafile=self.ca)

    def mark(self) -> tuple[int, int]:
        """Changes whenever the password file is replaced or written; (0, 0) where there is none."""
        if self.password_file is None:
            return (0, 0)
        try:
            found = self.password_file.stat()
        except OSError:
            return (0, 0)
        return (found.st_ino, found.st_mtime_ns)


def read_password(path: Path) -> str:
    """The first line of a password file. Raises CredentialError, which names the file and the remedy."""
    try:
        with path.open("rb") as file:
            found = path.stat()
            content = file.read(_LONGEST + 1)
    except OSError as error:
        raise CredentialError(
            f"the password file {path} of Kafka cannot be read ({error.strerror or error}): "
            "`muster up` makes it for the embedded stack; for another Kafka write the password into it, with mode 0600"
        ) from error
    if exposed(found):
        mode = stat.S_IMODE(found.st_mode)
        raise CredentialError(
            f"the password file {path} of Kafka can be read by others (mode {mode:04o}): chmod 600 {path}, or mount "
            "the Secret with defaultMode 0440"
        )
    password = content.decode(errors="replace").strip()
    if not password or len(content) > _LONGEST or "\n" in password:
        raise CredentialError(
            f"the password file {path} of Kafka has {len(content)} bytes in {len(password.splitlines())} lines: "
            f"one line with a password is expected, of at most {_LONGEST} bytes"
        )
    return password
