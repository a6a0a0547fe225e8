"""Key files: a process's own private key, and the trust file with the public keys of the others.

Called by composition roots, and by settings for every file that holds a secret. Holds: a secret is readable by its
owner alone, or the process does not start; both kinds of file are read again within a second of a change, so that keys
rotate on a live stack; a change that cannot be read keeps what was read before.

A private key is Ed25519 in PKCS 8 (PEM). The trust file is a JWKS whose members also say whose key it is and for what:
{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "..", "service": "scheduler", "for": "calls"}]}. A key's id is computed
from its bytes, so no file can give one key the id of another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import AfterValidator

from muster_chassis import logs

_log = logs.get(__name__)
_LOOK_SECONDS: Final = 1.0
_LARGEST: Final = 256 << 10
_MOST_KEYS: Final = 200
_ROOT: Final = 0
_OTHERS: Final = 0o077  # the permissions of the group and of everybody else
_GROUP_WRITE_AND_OTHERS: Final = 0o037
T = TypeVar("T")


class Purpose(StrEnum):
    """What a key signs. A key is for one purpose, so that no signature can be taken for one of the other kind."""

    CALLS = "calls"
    ASSIGNMENTS = "assignments"


class KeyFileError(ValueError):
    """A file of keys that cannot be used; the message names it and says what to do, and never what is in it."""


def exposed(found: os.stat_result, user: int | None = None) -> bool:
    """Return whether other users can read or write a file that holds a secret.

    Group read is allowed for a file of root if the process does not run as root: Kubernetes mounts a Secret in this
    way, with the group of the pod (fsGroup). user: the process's user id; None: that of this process.
    """
    mounted = found.st_uid == _ROOT and (os.geteuid() if user is None else user) != _ROOT
    return bool(stat.S_IMODE(found.st_mode) & (_GROUP_WRITE_AND_OTHERS if mounted else _OTHERS))


def check_secret(path: Path) -> Path:
    """Return the path if only the owner, or the group of a mount, can read the file. Raises KeyFileError."""
    try:
        found = path.stat()
    except OSError as error:
        why = error.strerror or str(error)
        raise KeyFileError(f"{path} cannot be read ({why}): restore it, or name another file") from None
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileError(f"{path} is not a regular file: name the file that holds the secret")
    if exposed(found):
        mode = stat.S_IMODE(found.st_mode)
        raise KeyFileError(
            f"{path} holds a secret and has mode {mode:04o}, so others can read or write it: run `chmod 600 {path}` "
            "(a mounted Kubernetes Secret: set defaultMode to 0440), and replace the secret if others may have read it"
        )
    if not os.access(path, os.R_OK):
        raise KeyFileError(f"{path} cannot be read (permission denied): its owner has to be the user of this process")
    return path


def _check_trust(path: Path) -> Path:
    """The path of a trust file that others cannot write. Raises KeyFileError."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        why = error.strerror or str(error)
        raise KeyFileError(f"{path} cannot be read ({why}): restore it, or name another file") from None
    if mode & 0o022:
        raise KeyFileError(
            f"{path} says which keys are trusted and has mode {mode:04o}, so others can write it: run "
            f"`chmod go-w {path}`"
        )
    return path


SecretFile = Annotated[Path, AfterValidator(check_secret)]
"""A setting that names a file with a secret."""
TrustPath = Annotated[Path, AfterValidator(_check_trust)]
"""A setting that names a trust file."""


def key_id(public: Ed25519PublicKey) -> str:
    """The id of a key: 16 hex digits of SHA-256 over its 32 bytes."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


class Watched(Generic[T]):
    """What a file says, read again when the file changes; looked at once a second at most."""

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], T],
        clock: Callable[[], float] = monotonic,
        also: tuple[Path, ...] = (),
    ) -> None:
        """also: other files that `read` looks at. Raises KeyFileError where the file cannot be used now."""
        self.path = path
        self._files = (path, *also)
        self._read = read
        self._clock = clock
        self._mark = self._marks()
        self._value = read(path)
        self._looked = clock()

    def get(self) -> T:
        """What the file says."""
        now = self._clock()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._look()
        return self._value

    def look_again(self) -> T:
        """What the file says at this very moment: for a key that is not known, at most as often as files change."""
        self._look()
        return self._value

    def _look(self) -> None:
        mark = self._marks()
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._value = self._read(self.path)
        except KeyFileError as error:
            _log.error("a key file was changed and cannot be used, what was read before stays", error=str(error))

    def _marks(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_mark(path) for path in self._files)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key and its id."""

    kid: str
    private: Ed25519PrivateKey


def read_private(path: Path) -> SigningKey:
    """The private key in a file. Raises KeyFileError."""
    try:
        key = serialization.load_pem_private_key(read_bytes(check_secret(path)), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if isinstance(error, KeyFileError):
            raise
        raise KeyFileError(f"{path} holds no private key (PEM, without a passphrase): restore it") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a key of another kind: Ed25519 is needed")
    return SigningKey(key_id(key.public_key()), key)


PrivateKey = Watched[SigningKey]
"""A private key, followed: `PrivateKey(path, read_private)`."""

Known = Mapping[tuple[str, Purpose], Mapping[str, Ed25519PublicKey]]
"""The trusted keys by id, of each service and purpose."""


class TrustFile:
    """The public keys that count, followed."""

    def __init__(self, path: Path, clock: Callable[[], float] = monotonic) -> None:
        """Raises KeyFileError where the file cannot be used now."""
        self._file: Watched[Known] = Watched(path, read_trust, clock)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def find(self, service: str, purpose: Purpose, kid: str | None) -> Ed25519PublicKey | None:
        """The key of that id, if it is that service's and for that purpose; without an id the only one there is."""
        known = self.of(service, purpose)
        if kid is None:
            return next(iter(known.values())) if len(known) == 1 else None
        # A rotation writes the new key here before anything is signed with it, maybe within the last second.
        return known.get(kid) or self._file.look_again().get((service, purpose), {}).get(kid)

    def of(self, service: str, purpose: Purpose) -> Mapping[str, Ed25519PublicKey]:
        """The keys of a service for a purpose, by id."""
        return self._file.get().get((service, purpose), {})


def read_trust(path: Path) -> Known:
    """The keys of a trust file. Raises KeyFileError."""
    try:
        listed = msgspec.json.decode(read_bytes(_check_trust(path)))["keys"]
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError):
        raise KeyFileError(f"{path} is no trust file: expected a JSON object with a list `keys`") from None
    if not isinstance(listed, list) or len(listed) > _MOST_KEYS:
        raise KeyFileError(f"{path} is no trust file: `keys` has to be a list of at most {_MOST_KEYS}")
    found: dict[tuple[str, Purpose], dict[str, Ed25519PublicKey]] = {}
    for number, member in enumerate(listed, start=1):
        service, purpose, public = _trusted(member, f"{path}: key {number}")
        found.setdefault((service, purpose), {})[key_id(public)] = public
    return found


def _trusted(member: Any, where: str) -> tuple[str, Purpose, Ed25519PublicKey]:
    if not isinstance(member, dict) or (member.get("kty"), member.get("crv")) != ("OKP", "Ed25519"):
        raise KeyFileError(f"{where} is not of kty OKP and crv Ed25519")
    service, purpose = member.get("service"), member.get("for")
    if not isinstance(service, str) or purpose not in list(Purpose):
        raise KeyFileError(f"{where} does not say whose it is (`service`) and for what (`for`: {', '.join(Purpose)})")
    try:
        text = str(member.get("x", ""))
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return service, Purpose(str(purpose)), Ed25519PublicKey.from_public_bytes(raw)
    except (ValueError, binascii.Error):
        raise KeyFileError(f"{where}: `x` is no public key of 32 bytes in base64url") from None


def read_bytes(path: Path, largest: int = _LARGEST) -> bytes:
    """What is in a file of at most `largest` bytes. Raises KeyFileError."""
    try:
        with path.open("rb") as file:
            found = file.read(largest + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise KeyFileError(f"{path} cannot be read ({why}): restore it, or name another file") from None
    if len(found) > largest:
        raise KeyFileError(f"{path} has more than {largest} bytes: that is no file of keys")
    return found
