"""What nobody should send: too deep, too long, too clever, not text. An error with its place, never a signal."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster_language import Violation, read
from muster_language.documents.loading import DEEPEST, LONGEST_DOCUMENT, decode, load
from tests.support.told import format_violations

HEAD = "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata: {name: t-1, namespace: runai-team-a}\nspec:\n"
TEN_MEGABYTES = 10 << 20
DEEP = """
import sys
from muster_language import read
depth = int(sys.argv[1])
for opened in ("[", "{a: ", "- ", "? ", "[{a: ["):
    (document, *rest) = read("spec: " * (opened[0] not in "-?") + opened * depth)
    print(opened, document.violations[0].message, document.violations[0].line, sep="|")
"""


@pytest.mark.parametrize("depth", [100, 30_000, 1_000_000])
def test_nesting_is_an_error_and_no_signal(depth: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEEP, str(depth)], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answers = [line.split("|") for line in done.stdout.splitlines()]
    assert len(answers) == 5
    assert {message for _, message, _ in answers} == {f"brackets or blocks are nested deeper than {DEEPEST}"}


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "  command: {value: " + "x" * TEN_MEGABYTES + "}\n",
        HEAD + '  command: {value: "' + "x " * (TEN_MEGABYTES // 2) + '"}\n',
        HEAD + "  command: {value: x}\n" + "# a remark\n" * (TEN_MEGABYTES // 11),
        HEAD + "\n" * TEN_MEGABYTES,
    ],
    ids=["plain", "quoted", "comments", "nothing"],
)
def test_ten_megabytes_are_too_many(text: str) -> None:
    (document,) = read(text)
    assert [each.message for each in document.violations] == [
        f"the document is longer than {LONGEST_DOCUMENT} characters"
    ]


def test_a_bomb_of_aliases_is_refused_at_its_first() -> None:
    text = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
    (loaded,) = load(text)
    assert [(each.line, each.column, each.message) for each in loaded.violations] == [
        (2, 8, "an alias (* and a name) is not taken"),
        (2, 12, "an alias (* and a name) is not taken"),
        (3, 8, "an alias (* and a name) is not taken"),
        (3, 12, "an alias (* and a name) is not taken"),
    ]


@pytest.mark.parametrize("given", ["*canary", "!canary", "!canary and more", "!!canary x"])
@pytest.mark.parametrize("field", ["notebookToken:\n    value:", "environment:\n    items:\n      A:\n        value:"])
def test_a_credential_that_is_no_value_in_yaml_is_one_error_that_does_not_quote_it(field: str, given: str) -> None:
    kind = HEAD.replace("Training", "Interactive")
    documents = read(f"{kind}  image: {{value: i}}\n  {field} {given}\n")
    [violation] = documents[0].violations
    assert violation.path.endswith("value")
    assert f"begins with {given[0]} in quotes" in violation.allowed
    assert "canary" not in format_violations(documents)


def test_duplicate_keys_are_named_with_both_lines() -> None:
    text = HEAD + "  command: {value: a}\n  image: {value: i}\n  command: {value: b}\n"
    assert format_violations(read(text, source="t.yaml")) == (
        "t.yaml:7:3: spec: command is given twice\n"
        "  the first one is in line 5; keep one of them\n"
        "1 error, nothing was submitted"
    )


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"a: b\nc: \xff\n", (2, 4, "byte 8 (0xff) is not UTF-8")),
        ("ä: ö\n".encode("latin-1"), (1, 1, "byte 0 (0xe4) is not UTF-8")),
        ("é: ".encode() + b"\xc3", (1, 4, "byte 4 (0xc3) is not UTF-8")),
        (b"\xed\xa0\x80", (1, 1, "byte 0 (0xed) is not UTF-8")),
    ],
)
def test_invalid_utf8_says_where(content: bytes, place: tuple[int, int, str]) -> None:
    found = decode(content)
    assert isinstance(found, Violation)
    assert (found.line, found.column, found.message) == place


def test_utf8_is_text() -> None:
    assert decode("a: ö\n".encode()) == "a: ö\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: b\nc: \ud800x\n", (2, 4, "the text is not valid Unicode")),
        ("a: b\nc: \0\n", (2, 4, "this is not YAML: control characters are not allowed")),
    ],
)
def test_what_is_no_text_says_where(text: str, place: tuple[int, int, str]) -> None:
    (found,) = read(text)[0].violations
    assert (found.line, found.column, found.message) == place
