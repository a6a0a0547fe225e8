"""Text from outside, made fit for PostgreSQL, headers and logs.

PostgreSQL refuses NUL in text and UTF-8 refuses lone surrogates; either would turn one odd reason into a poisonous
event. Services call `clean` on free text before it is stored.
"""

from __future__ import annotations

from typing import Final

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean(text: str | bytes, limit: int = 4096) -> str:
    """`text` without NUL and lone surrogates, at most `limit` characters, the cut marked by '...'."""
    if isinstance(text, bytes):
        text = text[: 4 * limit].decode("utf-8", "replace")
    if len(text) > limit:
        text = text[: max(0, limit - 3)] + "..."
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text
