"""Free ports on the loopback.

Called by the keeper once per data folder (the ports are then kept in stack.json) and by the fixtures.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from itertools import islice
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_RANGE: Final = range(20000, 32000)


def free_ports(count: int, *, but_not: Collection[int] = ()) -> list[int]:
    """`count` different ports on which nobody listens now, none of `but_not`. Raises OSError where there are too few.

    They lie below the range from which systems lend ports to outgoing connections: a server that is restarted would
    otherwise find its own port lent to somebody for a while.
    """
    candidates = random.SystemRandom().sample(_RANGE, len(_RANGE))
    found = list(islice((port for port in candidates if port not in but_not and is_free(port)), count))
    if len(found) < count:
        raise OSError(f"only {len(found)} of {count} ports in {_RANGE.start}-{_RANGE.stop - 1} are free")
    return found


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now, and nobody has claimed it for one."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    claimed = claim(port)
    if claimed is None:
        return False
    claimed.close()
    return True


def claim(port: int) -> socket.socket | None:
    """Keeps other stacks off a port until the socket is closed or its process ends; None where another one has it.

    Seconds pass between choosing a port and listening there, in which a second stack could choose the same one. The
    claim is the UDP port of that number, which no server of ours uses: it needs no file, and no crash leaves it behind.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        held.bind((LOOPBACK, port))
    except OSError:
        held.close()
        return None
    return held


def reserve(port: int) -> socket.socket | None:
    """Keeps users other than this one off a TCP port until the socket is closed; None where the port is taken.

    A server of this user listens there all the same, by SO_REUSEPORT, and a client meets only one that listens. Without
    it any process of the machine could take the port while its service restarts, and be told what is meant for it.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        held.bind((LOOPBACK, port))
    except OSError:
        held.close()
        return None
    return held


def listens(port: int, *, seconds: float = 0.2) -> bool:
    """Whether somebody accepts connections on this port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=seconds):
            return True
    except OSError:
        return False
