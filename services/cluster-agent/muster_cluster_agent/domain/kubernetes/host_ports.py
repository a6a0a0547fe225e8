"""Ports of a gang whose pods use the network of their nodes (`hostNetwork`). Pure.

A pod with an address of its own uses the usual port of its framework. On the network of a node another gang, or another
member of the same one, may have that port. So a gang draws its ports from a range, by its name; an agent does not see
what else listens on a node. If one is taken, the replica fails, and the next attempt of the gang has other ports.
"""

from __future__ import annotations

import hashlib
from typing import Final

FIRST: Final = 20_000
NUMBER: Final = 10_000
"""The range ends below the usual node ports (from 30000) and what Linux gives to clients (from 32768)."""


def host_port(run: str, place: int) -> int:
    """The port of a gang at a place. Places of one run have different ports, as long as it has at most NUMBER.

    run: the name of the run, another one for each attempt. place: from 0.
    """
    start = int.from_bytes(hashlib.blake2s(run.encode(), digest_size=4).digest())
    return FIRST + (start + place) % NUMBER
