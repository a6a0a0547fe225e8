"""The calculators as the command runs them: known answers, drawings, and what they say of bad input."""

from __future__ import annotations

import io
import json
import re
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from muster_client.cli.app import run
from muster_kernel.mig import CARDS
from muster_scheduler.planning.drawing import bar, table_of
from muster_scheduler.planning.level import read
from tests.support.fair_share import CASES

_OF_QUEUE = ("queue", "parent", "priority", "deserved", "request", "weight", "limit", "usage")
GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "planning.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", GUIDE.read_text(), flags=re.DOTALL | re.MULTILINE)


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert run(["fair-share", *words]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    return captured.err.splitlines()


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        (tmp_path / "f.json").write_text(text)
        return "f.json"

    return write


def test_all_known_cases_through_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fair-share", str(CASES), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(CASES.read_text())


def test_the_guides_case_is_divided_and_drawn_as_it_says(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (document,), (table, _) = blocks("json"), blocks("text")
    assert run(["fair-share", asked(document)]) == 0
    assert stripped(capsys.readouterr().out) == stripped(table)


def test_several_cases_are_numbered(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    one = {"total": 3, "queues": [{"queue": "a", "request": 2}]}
    assert run(["fair-share", asked(json.dumps({"cases": [one, one]}))]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("case")] == ["case 0", "case 1"]


def test_standard_input_past_use_and_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    queues = [{"queue": "a", "request": 9, "usage": 0.75}, {"queue": "b", "request": 9, "usage": 0.25}]
    text = json.dumps({"name": "fading", "total": 4, "k": 1, "queues": queues})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["fair-share", "-", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["name"], answer["share"]) == ("fading", {"a": 1, "b": 3})


def test_everything_wrong_is_told_with_its_path(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    queues = [
        {"queue": "a", "deserved": -4, "wieght": 1},
        {"queue": "a", "request": "x", "parent": "z", "weight": 0.00001},
        5,
        {"queue": "", "request": True},
        {"queue": "p", "request": 1},
        {"queue": "c", "request": 1, "parent": "p"},
    ]
    told = complaint(capsys, asked(json.dumps({"total": 1, "name": 3, "queues": queues})))
    assert told == [
        "f.json: name: 3: a name of 1 to 253 characters",
        f"f.json: queues.0.wieght: is no field here: {', '.join(_OF_QUEUE)} are",
        "f.json: queues.0.deserved: -4 is out of range: 0 to 10000000 is allowed",
        "f.json: queues.0.request: is missing: a number from 0 to 10000000 is expected",
        'f.json: queues.1.request: "x": a number from 0 to 10000000 is expected',
        "f.json: queues.1.weight: 1e-05 is too fine: steps of 0.001 are allowed",
        "f.json: queues.1.queue: 'a' stands there twice: every queue needs its own name",
        "f.json: queues.1.parent: 'z' is no queue of this case",
        "f.json: queues.2: 5: a queue is an object",
        'f.json: queues.3.queue: "": a name of 1 to 253 characters',
        "f.json: queues.3.request: true: a number from 0 to 10000000 is expected",
        "f.json: queues.4.request: 'p' is a parent: what it wants is what its children want; leave it out",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "f.json:1:2: Expecting value: JSON is expected"),
        ("[" * 100_000, "f.json: nested too deeply"),
        ("\udcff", "f.json: byte 0 is no UTF-8: JSON in UTF-8 is expected"),
        ("NaN", "f.json: NaN is no number of JSON"),
        ("9" * 50, f"f.json: the number {'9' * 40}.. has 50 characters; at most 40 are allowed"),
        ('{"total": 8, "total": 9}', "f.json: duplicate key 'total' in one object"),
        ("3", 'f.json: 3: a case is an object with "total" and "queues"'),
        ('{"cases": {}}', "f.json: cases: an object of 0: a list of at most 10000 cases is expected"),
        ('{"cases": [[]]}', 'f.json: cases.0: a list of 0: a case is an object with "total" and "queues"'),
        ('{"total": 1}', "f.json: queues: is missing: a list of 1 to 10000 queues is expected"),
        (
            '{"total": 1, "queues": [{"queue": "a", "parent": "b"}, {"queue": "b", "parent": "a"}]}',
            "f.json: queues: a, b: each stands below the other, in a circle",
        ),
    ],
)
def test_a_file_that_cannot_be_used(text: str, told: str, asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    Path(asked("")).write_bytes(text.encode(errors="surrogateescape"))
    assert complaint(capsys, "f.json") == [told]


def test_many_problems_are_counted_and_an_absent_file_is_named(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    told = complaint(capsys, asked(json.dumps({"total": 1, "queues": [1] * 30})))
    assert (len(told), told[-1]) == (21, "f.json: and 10 more")
    assert complaint(capsys, "absent.json") == ["absent.json: No such file or directory"]
    (error,) = complaint(capsys, "absent.json", "--json")
    assert json.loads(error) == {
        "error": {"code": "INVALID_ARGUMENT", "message": "absent.json: No such file or directory"},
        "exit": 2,
    }


def test_bars() -> None:
    assert bar(0, 0, 0) == ""
    assert bar(16, 32, 32) == "█" * 16 + "░" * 16
    assert bar(64, 64, 32) == "█" * 32


def test_the_guides_card_is_drawn_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "a30-24gb"]) == 0
    assert stripped(capsys.readouterr().out) == stripped(blocks("text")[1])


def test_layouts_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "A100-40GB", "--profiles", "3g.20gb,1g.5gb", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["profiles", "legal", "maximal", "legal_sets"]
    assert found["profiles"] == ["1g.5gb", "3g.20gb"]
    assert found["legal"][0] == []
    assert sorted(found["maximal"], key=len)[:1] == [[["3g.20gb", 0], ["3g.20gb", 4]]]
    assert ["1g.5gb", "1g.5gb", "1g.5gb", "3g.20gb"] in found["legal_sets"]
    assert ["1g.5gb", "3g.20gb", "3g.20gb"] not in found["legal_sets"]


def test_every_legal_layout_and_media_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "A30-24GB", "--me", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A30-24GB: 84 legal layouts of 22 sets of profiles, 21 maximal"
    assert len(lines) == 2 + 84


def test_an_unknown_card_or_profile_names_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "V100"]) == 2
    assert capsys.readouterr().err == f"'V100' is no GPU with MIG: {', '.join(CARDS)} are known\n"
    assert run(["mig", "A30-24GB", "--profiles", "1g.6gb,1g"]) == 2
    told = "'1g' is no profile of A30-24GB: 1g.6gb, 1g.6gb+me, 2g.12gb, 2g.12gb+me, 4g.24gb\n"
    assert capsys.readouterr().err == told


def test_a_name_stays_on_its_line_and_is_no_markup(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    queues = [{"queue": "a\nb\x1b[31m", "request": 2}, {"queue": "[red]c", "request": 1}]
    assert run(["fair-share", asked(json.dumps({"total": 3, "queues": queues}))]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert (head[:5], first[:8], second[:6]) == ("QUEUE", "a\ufffdb\ufffd[31m", "[red]c")


def test_few_columns_show_what_counts() -> None:
    (case,), _ = read({"total": Fraction(3), "queues": [{"queue": "a", "request": Fraction(2)}]})
    heads = {width: table_of(case, width)[0].split(maxsplit=7) for width in (40, 80, 160)}
    assert heads[40] == ["QUEUE", "DESERVED", "REQUEST", "SHARE"]
    assert heads[80] == ["QUEUE", "DESERVED", "REQUEST", "LIMIT", "WEIGHT", "PRIORITY", "SHARE"]
    assert heads[160] == [*heads[80], "OF 3"]


def test_a_long_name_is_folded_and_its_numbers_stay_in_line() -> None:
    (case,), _ = read({"total": Fraction(3), "queues": [{"queue": "\u6f22" * 60, "request": Fraction(2)}]})
    head, first, *more = table_of(case, 50)
    assert head.endswith("SHARE")
    assert [cell_len(line) for line in (head, first)] == [50, 50]
    assert first.split()[1:] == ["0", "2", "2"]
    assert "".join((first.split()[0], *more)) == "\u6f22" * 60


def test_a_chain_of_queues_as_long_as_a_file_may_hold_is_drawn(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    chain = [{"queue": f"q{at}", "parent": f"q{at - 1}"} for at in range(1, 2000)]
    queues = [{**chain[-1], "request": 3}, *reversed(chain[:-1]), {"queue": "q0"}]  # children before their parents
    assert run(["fair-share", asked(json.dumps({"total": 2, "queues": queues}))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[at].split()[0] for at in (1, 2)] == ["q0", "q1"]
    assert lines[2].startswith("  q1 ")
    assert lines[-1].split()[:2] == ["1999:", "q1999"]
    assert max(map(len, lines)) <= 160


def test_many_queues_are_drawn_in_time_that_grows_with_them(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    queues = [{"queue": f"q{at}", "request": 1} for at in range(10_000)]
    file = asked(json.dumps({"total": 2, "queues": queues}))
    started = time.process_time()
    assert run(["fair-share", file]) == 0
    assert time.process_time() - started < 6  # 26 s where each queue looked at all others
    assert len(capsys.readouterr().out.splitlines()) == 10_001


@pytest.mark.parametrize("columns", [50, 79])
def test_a_narrow_terminal_is_told_layouts_instead_of_boxes(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(["mig", "A100-40GB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "0:3g.20gb 4:3g.20gb" in lines
    assert run(["mig", "A30-24GB"]) == 0
    assert "[" in capsys.readouterr().out


def test_no_case_is_said_and_steps_are_decimal(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fair-share", asked('{"cases": []}')]) == 0
    assert capsys.readouterr().out == "f.json has no case: nothing is divided\n"
    fine = asked('{"total": 0.0001, "queues": [{"queue": "a", "request": 1}]}')
    assert complaint(capsys, fine) == ["f.json: total: 0.0001 is too fine: steps of 0.001 are allowed"]
