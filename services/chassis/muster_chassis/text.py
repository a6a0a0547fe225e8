"""Text from outside, made fit for PostgreSQL, headers and logs.

PostgreSQL refuses NUL in text and UTF-8 refuses lone surrogates; either would turn one odd reason into a poisonous
event. Services call `clean` on free text before it is stored.
"""

from __future__ import annotations

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean(text: str | bytes, limit: int = 4096) -> str:
    """`text` without NUL and lone surrogates, at most `limit` characters, the cut marked by '...'."""
    if isinstance(text, bytes):
        text = text[: 4 * limit].decode("utf-8", "replace")
    if len(text) > limit:
        text = text[: max(0, limit - 3)] + "..."
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    # One for one: decoded with "replace", half a pair would become three characters and outgrow the limit.
    return _SURROGATE.sub(_REPLACEMENT, text)
