"""Which releases of Muster's parts work together: those that are one minor release apart at most (kubernetes.md 14.5).

Pure. Holds: a version that cannot be read is not judged, since a development build may have any.
"""

from __future__ import annotations

import re
from typing import Final

_RELEASE: Final = re.compile(r"(\d{1,6})\.(\d{1,6})(\..*)?")
_MOST_APART: Final = 1


def too_far_apart(one: str, other: str) -> bool:
    """Return whether two versions, such as `0.3.1`, are more than one minor release apart; major ones always are."""
    first, second = _RELEASE.fullmatch(one), _RELEASE.fullmatch(other)
    if first is None or second is None:
        return False
    return first[1] != second[1] or abs(int(first[2]) - int(second[2])) > _MOST_APART
