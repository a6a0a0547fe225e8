"""New keys for a stack, running or not: each rotation goes through states in which everything verifies.

Called by `muster keys`. Holds: the new public key is trusted before anything is signed with it, and the old one goes
only after the last signature that counts; a rotation that was cut short is finished by the next one.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from muster_stack import identities, sealing_keys
from muster_stack.errors import StackError
from muster_stack.identities import Identity
from muster_stack.layout import Layout

FOLLOWED_SECONDS: Final = 3.0
"""After so long every process signs with the key that is in its file: it looks once a second."""


@dataclass(frozen=True, slots=True)
class ListedKey:
    """One key of a stack, for people.

    state: `signs`, `verifies`, `seals`, `opens`; of certificates also `serves` and `expired`. until: the end of a
    certificate; keys have none.
    """

    kind: str
    holder: str
    id: str
    since: str
    state: str
    until: str = ""


def rotate(layout: Layout, chosen: Sequence[Identity], pause: Callable[[float], None] = time.sleep) -> list[str]:
    """Gives each identity a new key; returns the ids of the new ones. Raises StackError."""
    with _alone(layout):
        fresh = {identity: Ed25519PrivateKey.generate() for identity in chosen}
        before = {identity: identities.current(layout, identity) for identity in chosen}
        listed = identities.listed_keys(layout)
        added = [identities.member_of(identity, private) for identity, private in fresh.items()]
        identities.write_trust(layout, [*listed, *added])
        for identity, private in fresh.items():
            identities.write_private(identity.path(layout), private)
        pause(FOLLOWED_SECONDS)
        kept = {identities.key_id(private) for private in fresh.values()}
        # Records that the key before signed are on the topics for a while; of its tokens none counts any more.
        kept |= {kid for identity, kid in before.items() if identity.purpose == identities.ASSIGNMENTS}
        identities.write_trust(layout, _without_old(identities.listed_keys(layout), chosen, kept))
    return [identities.key_id(private) for private in fresh.values()]


def _without_old(listed: Sequence[dict[str, Any]], chosen: Sequence[Identity], kept: set[str]) -> list[dict[str, Any]]:
    """The members without those of the chosen identities that are not kept."""
    own = {(identity.service, identity.purpose) for identity in chosen}
    return [one for one in listed if (one.get("service"), one.get("for")) not in own or one.get("kid") in kept]


def list_keys(layout: Layout) -> list[ListedKey]:
    """Every key of the stack, the current one of each holder first. Raises StackError where there is no stack."""
    if not identities.trust(layout).exists():
        raise StackError(f"{layout.root} has no keys: no stack was started there; name another folder with --data")
    current = {(one.service, one.purpose): identities.current(layout, one) for one in identities.ALL}
    found = []
    for member in reversed(identities.listed_keys(layout)):
        service, purpose, kid = str(member["service"]), str(member["for"]), str(member["kid"])
        kind = "signing" if purpose == identities.ASSIGNMENTS else "service"
        state = "signs" if current.get((service, purpose)) == kid else "verifies"
        found.append(ListedKey(kind, service, kid, str(member.get("since", "")), state))
    sealing = [
        ListedKey("sealing", "submission", kid, "", "opens" if number else "seals")
        for number, kid in enumerate(sealing_keys.listed(layout.sealing_keys))
    ]
    return [*sorted(found, key=lambda one: (one.kind, one.holder, one.state)), *sealing]


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Holds the lock of rotations. Raises StackError where there is no stack, or another rotation is under way."""
    if not layout.identities.is_dir():
        raise StackError(f"{layout.root} has no keys: no stack was started there; name another folder with --data")
    with locked(layout.identities):
        yield


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder of keys. Raises StackError where another process changes them now."""
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError("another rotation is under way: repeat the command when it has ended") from None
        yield
