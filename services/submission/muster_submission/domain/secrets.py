"""Sealed credentials: how a spec names one, and what becomes of each sensitive field when a spec is made or changed.

Called by handlers/sealing.py. Holds: a reference is made by Muster alone; what a reference names belongs to one holder
(a workload or a template) and goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster_kernel.ids import is_uuid
from muster_kernel.sealed import SEALED
from muster_language.sensitive import MASK


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Which sealed credential is meant: its id, and the version of its value."""

    id: str
    version: int

    @property
    def text(self) -> str:
        """As it stands in a spec."""
        return f"{SEALED}{self.id}:{self.version}"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed credential as it is kept. `key`: the id of the key that it is sealed with."""

    ref: SecretRef
    holder: str
    key: str
    nonce: bytes
    cipher: bytes

    @property
    def bound(self) -> bytes:
        """What the seal holds together with the value: a row that is moved to another holder does not open."""
        return bound_to(self.ref, self.holder)


def bound_to(ref: SecretRef, holder: str) -> bytes:
    """The associated data of a seal."""
    return f"{ref.id}\x00{ref.version}\x00{holder}".encode()


def read_ref(text: str) -> SecretRef | None:
    """The reference that a text of a spec is; None where it is none."""
    identity, _, version = text.removeprefix(SEALED).partition(":")
    if not text.startswith(SEALED) or not is_uuid(identity) or not (version.isascii() and version.isdigit()):
        return None
    return SecretRef(identity, int(version))


def forged(text: str) -> str:
    """Why somebody may not write this into a sensitive field; empty: they may."""
    if text.startswith(SEALED):
        return f"begins with {SEALED!r}, which only Muster writes: give the credential itself, or SECRET:name,key"
    return ""


def nothing_kept(text: str) -> str:
    """Why a field that is new cannot have this value; empty: it can."""
    if text == MASK:
        return f"is {MASK!r}, which keeps a stored credential, and there is none yet: give the credential itself"
    return ""
