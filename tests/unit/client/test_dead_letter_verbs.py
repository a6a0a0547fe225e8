"""`muster dead-letters`: what services could not handle, for people."""

from __future__ import annotations

import json

import pytest

from muster.api.v1 import dead_letters_pb2
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

LETTER = "0190b0b0-0000-7000-8000-00000000000"


def _letters(world: World, count: int, reason: str = "no message") -> None:
    world.dead_letters.extend(
        dead_letters_pb2.DeadLetter(
            id=f"{LETTER}{number}", service="submission", topic="muster.admissions", attempts=3, reason=reason
        )
        for number in range(count)
    )


def test_dead_letters(muster: Command, world: World) -> None:
    _letters(world, 1)
    ran = muster("dead-letters")
    assert "submission" in ran.out
    assert "no answer from telemetry" in ran.err
    redriven = muster("dead-letters", "redrive", f"{LETTER}0")
    assert redriven.code == 1
    assert "1 handled, 1 failed again" in redriven.out
    assert muster("dead-letters", "redrive").code == 2
    resumed = muster("dead-letters", "resume", "scheduler", "--topic", "muster.admissions")
    assert "scheduler goes on with muster.admissions\n" in resumed.out


def test_a_resumption_says_how_many_passed(muster: Command) -> None:
    counted = muster("dead-letters", "resume", "scheduler", "--topic", "muster.admissions", "--count", "30000")
    assert (
        counted.out == "scheduler goes on with muster.admissions: 30,000 records passed, 15,000 became dead letters\n"
    )
    quiet = muster("dead-letters", "resume", "scheduler", "--topic", "muster.admissions", "--until-quiet")
    assert "0 records passed" in quiet.out
    assert muster("dead-letters", "resume", "scheduler", "--count", "5", "--until-quiet").code == 2
    assert muster("dead-letters", "resume", "scheduler", "--count", "-5").code == 2


def test_dead_letters_are_shown_up_to_the_limit_and_the_rest_is_counted(muster: Command, world: World) -> None:
    _letters(world, 5)
    some = muster("dead-letters", "list", "--limit", "3")
    assert some.out.count(LETTER) == 3
    assert "2 more" in some.err
    every = muster("dead-letters", "list", "--json")
    assert [each["id"][-1] for each in json.loads(every.out)] == ["0", "1", "2", "3", "4"]
    assert "more" not in every.err


def test_a_dead_letter_is_readable_at_80_columns(muster: Command, world: World) -> None:
    reason = "the value is no muster.events.v1.WorkloadAdmitted: it ends in the middle of the field effective_spec"
    _letters(world, 1, reason)
    lines = muster("dead-letters").out.splitlines()
    assert lines[0].split() == ["ID", "SERVICE", "TRIES", "PARKED", "AGE"]
    assert lines[1].split()[:4] == [f"{LETTER}0", "submission", "3", "0"]
    assert lines[2].startswith("  admissions: the value is no")
    assert " ".join(" ".join(lines[2:]).split()) == f"admissions: {reason}"
    assert max(len(line) for line in lines) <= 80


def test_dead_letters_are_given_up(muster: Command, world: World) -> None:
    _letters(world, 1)
    given_up = muster("dead-letters", "discard", f"{LETTER}0")
    assert (given_up.code, given_up.out) == (0, "1 given up, 2 waited behind and may go on\n")
    half = muster("dead-letters", "discard", f"{LETTER}0", f"{LETTER}7")
    assert half.code == 1
    assert f"{LETTER}7: no dead letter waits under this id" in half.out
    assert muster("dead-letters", "discard").code == 2


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_what_is_no_id_of_a_dead_letter_is_not_asked_for(muster: Command, world: World, verb: str) -> None:
    ran = muster("dead-letters", verb, "foo")
    assert ran.code == 2
    assert "'foo' is no id of a dead letter" in ran.err
    assert not world.asked("RedriveDeadLetters")
    assert not world.asked("DiscardDeadLetters")


def test_gaps_are_shown_with_what_is_missing(muster: Command) -> None:
    told = muster("dead-letters", "gaps")
    assert told.code == 0
    assert told.out.split("\n")[1].split() == ["submission", "decisions", "w-1", "3-5", "2", told.out.split()[-1]]
    assert "1 more" in told.err
    assert "no answer from telemetry" in told.err
    (gap,) = json.loads(muster("dead-letters", "gaps", "--json").out)
    assert (gap["first"], gap["last"], gap["waiting"]) == (3, 5, 2)


def test_a_topic_is_published_again(muster: Command) -> None:
    assert muster("dead-letters", "republish", "--topic", "muster.decisions").out == (
        "muster.decisions: 7 records were published again; of 1 workloads the state, since older events are not kept "
        "any more\n"
    )
    assert muster("dead-letters", "republish", "--topic", "muster.admissions").out == (
        "muster.admissions: 7 records were published again\n"
    )
    one = muster("dead-letters", "republish", "--topic", "muster.decisions", "--key", "w-1")
    assert "the state of w-1 was published" in one.out
    as_json = muster("dead-letters", "republish", "--topic", "muster.decisions", "--json")
    assert json.loads(as_json.out)["records"] == 7
    assert muster("dead-letters", "republish").code == 2
