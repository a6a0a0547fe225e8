"""A command as words: split as a POSIX shell splits it, without a shell, with references to the environment.

Called by the agent's plan (`split`) and launch (`expand`), and by the language, which refuses what cannot be split.
`${NAME}` is the value of that variable outside single quotes, as one word whatever it holds; `$(NAME)` is the same in
the way of pods, and `$$` there a single `$`. Nothing else is expanded: no globs, no backticks, no `$NAME`.
Holds: a name that is not set stays as it is written, so that a missing variable is seen and not silently nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_MARK: Final = "\0"  # before a reference that may be expanded: no command can hold a NUL of its own
_REFERENCE: Final = re.compile(r"\0\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_BRACED: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SPACES: Final = " \t\r\n"
_ESCAPED_IN_QUOTES: Final = '$`"\\\n'


def split(text: str) -> tuple[str, ...]:
    """The words of a text. Raises ValueError for a quote that is not closed, an escape of nothing, or a NUL."""
    if _MARK in text:
        raise ValueError("it holds a NUL character, which no process can be given")
    words: list[str] = []
    word: str | None = None
    for piece in _pieces(text):
        if piece is None:
            words += [word] if word is not None else []
            word = None
        else:
            word = (word or "") + piece
    return (*words, word) if word is not None else tuple(words)


def _pieces(text: str) -> Iterator[str | None]:
    """Pieces of words with their quotes taken off; None between two words."""
    at = 0
    while at < len(text):
        character = text[at]
        if character in _SPACES:
            yield None
            at += 1
        elif character == "'":
            end = _closing(text, at)
            yield text[at + 1 : end]
            at = end + 1
        elif character == '"':
            piece, at = _quoted(text, at + 1)
            yield piece
        elif character == "\\":
            if at + 1 == len(text):
                raise ValueError("it ends in a backslash that escapes nothing")
            yield "" if text[at + 1] == "\n" else text[at + 1]
            at += 2
        else:
            piece, at = _reference_or_character(text, at)
            yield piece


def _closing(text: str, at: int) -> int:
    end = text.find(text[at], at + 1)
    if end < 0:
        raise ValueError(f"the quote {text[at]} is not closed")
    return end


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The inside of double quotes, and where the text goes on."""
    pieces: list[str] = []
    while at < len(text):
        if text[at] == '"':
            return "".join(pieces), at + 1
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in _ESCAPED_IN_QUOTES:
            pieces.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
        else:
            piece, at = _reference_or_character(text, at)
            pieces.append(piece)
    raise ValueError('the quote " is not closed')


def _reference_or_character(text: str, at: int) -> tuple[str, int]:
    braced = _BRACED.match(text, at)
    if braced is None:
        return text[at], at + 1
    return f"{_MARK}{braced[0][1:]}", braced.end()


def expand(word: str, env: Mapping[str, str]) -> str:
    """The word with the values of what it refers to."""

    def value(match: re.Match[str]) -> str:
        if match[1] is not None:
            return env.get(match[1], f"${{{match[1]}}}")
        return "$" if match[2] is None else env.get(match[2], match[0])

    return _REFERENCE.sub(value, word)
