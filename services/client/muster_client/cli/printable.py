r"""Text from outside as a terminal may receive it: nothing in it moves the cursor, recolours, reorders or hides text.

Called by the output for everything that is printed, by the tables before they measure, and by `muster logs` for what
replicas wrote. Pure. Holds: what is replaced stays visible as an escape (`\x1b`, `\u202e`), and a second pass changes
nothing.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from functools import cache
from typing import Final

_JOINERS: Final = "\u200c\u200d"
"""Persian, Indic scripts and emoji need them; they neither move nor hide anything."""
_HARMFUL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: controls, formats (the bidirectional ones among them), surrogates, line and paragraph ends."""
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_BYTE: Final = 0xFF
_BASIC_PLANE: Final = 0xFFFF

_SGR: Final = re.compile("\x1b\\[[0-9;:]{0,64}m")
_SEQUENCE: Final = re.compile(
    "\x1b(?:"
    "\\[[0-?]*[ -/]*[@-~]"  # CSI: cursor, erasing, modes, reports
    "|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\|$)"  # OSC, DCS, SOS, PM, APC with their text: titles, clipboard, links
    "|[ -/]+[0-~]|[0-OQ-WYZ`-~]"  # two and three characters: resets, character sets
    ")"
)
_RESET: Final = "\x1b[0m"


def printable(text: str) -> str:
    """`text` with every harmful character escaped; ends of lines and tabs stay."""
    return _escaped(text, keep="\n\t")


def one_line(text: str) -> str:
    """`text` as one line: ends of lines and tabs are escaped too, so that it cannot pass for another row."""
    return _escaped(text, keep="")


def hanging(text: str, indent: int = 2) -> str:
    """`text` with its second and later lines indented, so that none of them passes for a line of our own.

    indent: spaces, more than the lines have that follow it.
    """
    first, *others = printable(text).split("\n")
    space = " " * indent
    return "\n".join([first, *(line if not line or line.startswith(space) else f"{space}{line}" for line in others)])


def folded(text: str, indent: str = "  ", width: int = 80) -> str:
    """`text` as one line, filled to lines of `width` columns whose second and later ones begin with `indent`."""
    return textwrap.fill(
        one_line(text), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def json_safe(text: str) -> str:
    """A JSON document whose strings hold no harmful character: each is an escape, which reads back the same."""
    if text.isprintable():
        return text
    return "".join(_json_escape(char) if char != "\n" and _is_harmful(char) else char for char in text)


def coloured_line(text: str) -> str:
    """One line of a log: colours (SGR) stay and end with the line, every other control sequence is dropped.

    Harmful characters outside of a sequence are escaped.
    """
    if "\x1b" not in text:
        return _escaped(text, keep="\t")
    parts: list[str] = []
    end = 0
    for found in _SEQUENCE.finditer(text):
        parts.append(_escaped(text[end : found.start()], keep="\t"))
        if _SGR.fullmatch(found[0]):
            parts.append(found[0])
        end = found.end()
    parts.append(_escaped(text[end:], keep="\t"))
    line = "".join(parts)
    return f"{line}{_RESET}" if "\x1b" in line and not line.endswith(_RESET) else line


def _escaped(text: str, *, keep: str) -> str:
    if text.isprintable():
        return text
    return "".join(_escape(char) if char not in keep and _is_harmful(char) else char for char in text)


@cache
def _is_harmful(char: str) -> bool:
    return unicodedata.category(char) in _HARMFUL and char not in _JOINERS


def _escape(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    number = ord(char)
    if number <= _BYTE:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _BASIC_PLANE else f"\\U{number:08x}"


def _json_escape(char: str) -> str:
    pairs = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[at : at + 2].hex()}" for at in range(0, len(pairs), 2))
