"""Ports on the loopback interface, given out once at a time.

Used by the local back end. Holds: a port that a living replica was given is not given to another; the range lies
below the kernel's ephemeral ports, so that an outgoing connection cannot take one between being given and being
listened on.
"""

from __future__ import annotations

import hashlib
import socket
from typing import Final

from muster_cluster_agent.domain.launch import LOOPBACK
from muster_cluster_agent.errors import BackendError

FIRST: Final = 20_000
LAST: Final = 31_999


class Ports:
    """The allocator of one agent. Agents of one machine begin at different places, named by `seed`."""

    def __init__(self, seed: str) -> None:
        """Nothing is given out yet."""
        self._next = FIRST + int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") % (LAST - FIRST)
        self._given: set[int] = set()

    def take(self) -> int:
        """A port on which no process listens. Raises BackendError where all are taken."""
        for _ in range(LAST - FIRST + 1):
            port = self._next
            self._next = FIRST if port == LAST else port + 1
            if port not in self._given and is_free(port):
                self._given.add(port)
                return port
        raise BackendError(f"every port from {FIRST} to {LAST} is taken")

    def keep(self, port: int) -> None:
        """A port that was given before the agent was started."""
        self._given.add(port)

    def give_back(self, port: int) -> None:
        """Gives the port back."""
        self._given.discard(port)


def is_free(port: int) -> bool:
    """Whether no program of this machine has the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
