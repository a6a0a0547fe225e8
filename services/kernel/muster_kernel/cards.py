"""One name for a model of card, whatever tells of it: NVML, a node's labels, a slice of devices.

Called by agents that report devices. Pure. The names are those of `mig.py` (reference/mig.md), so that a card's MIG
geometry is found; a card without MIG keeps the vendor's name.
"""

from __future__ import annotations

import re
from typing import Final

from muster_kernel.mig import CARDS

_VENDOR: Final = re.compile(r"^(nvidia|tesla)[- ]+", re.IGNORECASE)
_SIZE: Final = re.compile(r"^([0-9]+)GB$", re.IGNORECASE)
_GIBIBYTE: Final = 1 << 30
_TOLERANCE: Final = 0.1  # of a card's memory: drivers keep a part for themselves


def card_of(product: str, memory_bytes: int = 0) -> str:
    """The card's name of what a driver or a label calls it, such as `NVIDIA H100 80GB HBM3` or `NVIDIA-H200`.

    memory_bytes: its memory, by which two sizes of one family are told apart; 0: not known.
    """
    words = _VENDOR.sub("", product.strip()).replace(" ", "-")
    family, *more = words.split("-")
    sizes = {_gigabytes(model, memory_bytes): model for model in CARDS if model.split("-")[0] == family.upper()}
    if len(sizes) == 1:
        return next(iter(sizes.values()))
    said = next((int(found[1]) for word in more if (found := _SIZE.match(word))), 0)
    if said in sizes:
        return sizes[said]
    actual = memory_bytes / _GIBIBYTE
    nearest = min(sizes, key=lambda size: abs(size - actual), default=0)
    if nearest and abs(nearest - actual) <= _TOLERANCE * nearest:
        return sizes[nearest]
    return words


def _gigabytes(model: str, otherwise: int) -> int:
    """The size in a card's name; `otherwise` where the name has none."""
    found = _SIZE.match(model.rpartition("-")[2])
    return int(found[1]) if found is not None else otherwise
