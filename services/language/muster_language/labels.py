"""The label of an item: what layers merge it by.

Called by merge, validation and the writer.
Holds: a label that is missing comes from the item itself, never from its place in the list: two layers agree on it.
"""

from __future__ import annotations

from typing import Any


def label_of(item: Any) -> str:
    """The item's own label, else the one that its content gives (a port: `p-<container>`), else empty."""
    if item.label:
        return str(item.label)
    container = getattr(item, "container", 0)
    return f"p-{container}" if container else ""
