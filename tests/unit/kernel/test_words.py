"""A command as words: split as a POSIX shell does, with `${X}` and `$(X)` expanded and nothing else."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_kernel.words import expand, split

ENV = {"A": "one two", "B": "$(A) ${A} \\", "EMPTY": ""}


def words(text: str) -> list[str]:
    return [expand(word, ENV) for word in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n", []),
        ("a  b\tc", ["a", "b", "c"]),
        ("'' \"\"", ["", ""]),
        ("a'b c'd\"e f\"", ["ab cde f"]),
        (r"a\ b \'c \\", ["a b", "'c", "\\"]),
        ('"a\\"b\\\\c\\d"', ['a"b\\c\\d']),
        ("a\\\nb", ["ab"]),
        ("'a\\b'", ["a\\b"]),
        ("${A}", ["one two"]),
        ("x${A}y", ["xone twoy"]),
        ('"${A}"', ["one two"]),
        ("'${A}'", ["${A}"]),
        (r"\${A}", ["${A}"]),
        (r'"\${A}"', ["${A}"]),
        ("${EMPTY}", [""]),
        ("${NOPE} $(NOPE)", ["${NOPE}", "$(NOPE)"]),
        ("$A ${A ${1} ${}", ["$A", "${A", "${1}", "${}"]),
        ("$(A) '$(A)' $$(A)", ["one two", "one two", "$(A)"]),
        ("${B}", ["$(A) ${A} \\"]),  # what a value holds is not expanded again
        ("`rm -rf /` $(rm) *.py ~ | > &", ["`rm", "-rf", "/`", "$(rm)", "*.py", "~", "|", ">", "&"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("text", ["'a", '"a', "a\\", '"a\\', "a\0b"])
def test_what_cannot_be_split(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(the quote|it )"):
        split(text)


@given(st.lists(st.text(st.characters(exclude_characters="\0"), max_size=8), max_size=4))
def test_quoted_words_come_back_as_they_were(given: list[str]) -> None:
    assert [expand(word, {}) for word in split(shlex.join(given))] == [each.replace("$$", "$") for each in given]


@given(st.text("ab '\\\t", max_size=12))
def test_it_splits_as_the_standard_library_does(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"^(the quote|it )"):
            split(text)
    else:
        assert list(split(text)) == expected
