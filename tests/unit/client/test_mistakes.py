"""What a person does wrong, and a control plane that does not answer: messages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.rpc import code_pb2, error_details_pb2

from tests.support.plane_world import Failure, World
from tests.unit.client.conftest import Command


@pytest.mark.parametrize("words", [["logs", "bert", "--tail", "-3"], ["list", "--limit", "-1"]])
def test_a_number_below_nothing(muster: Command, world: World, words: list[str]) -> None:
    ran = muster(*words)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert not world.calls


def test_a_mistake_of_the_command_itself(muster: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("not\nforeseen")

    monkeypatch.setattr("muster_client.cli.explaining.say", broken)
    ran = muster("explain", server=False)
    assert ran.code == 1
    assert ran.err.startswith("muster: a mistake of this command itself, please report it: ZeroDivisionError: not for")
    monkeypatch.setenv("MUSTER_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        muster("explain", server=False)


def test_nobody_answers(muster: Command) -> None:
    ran = muster("list", "--server", "127.0.0.1:1", "--retry", "0.1", server=False)
    assert ran.code == 4
    assert "the control plane at 127.0.0.1:1 does not answer" in ran.err
    assert "muster up" in ran.err
    assert ran.err.count("asking again") == 1
    assert not ran.out
    assert "stamina" not in ran.err


def test_no_stack_on_this_machine(muster: Command) -> None:
    ran = muster("list", server=False)
    assert ran.code == 4
    assert "`muster up`" in ran.err


def test_the_stack_on_this_machine_is_found(muster: Command, server: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "stack.json").write_text(json.dumps({"services": {"submission": {"grpc": server}}}))
    assert muster("list", server=False).code == 0


def test_a_service_behind_it_is_down(muster: Command, world: World) -> None:
    workload = world.add("bert")
    detail = error_details_pb2.ErrorInfo(reason="SERVICE_DOWN", metadata={"service": "scheduler"})
    world.fail("Why", Failure(code_pb2.UNAVAILABLE, "no connection", [detail]), times=1000)
    ran = muster("why", workload.id, "--retry", "0.1")
    assert ran.code == 4
    assert "scheduler does not answer: no connection" in ran.err
    world.fail("Why", Failure(code_pb2.UNAVAILABLE, "no connection", [detail]), times=1000)
    told = json.loads(muster("why", workload.id, "--retry", "0.1", "--json").err)
    assert told["error"]["service"] == "scheduler"


def test_not_found(muster: Command) -> None:
    assert muster("get", "nobody").code == 3
    assert muster("get", "nobody", "-p", "team-a").code == 3
    assert muster("explain", "training.spec.gpuu").code == 3


@pytest.mark.parametrize("words", [["submti"], ["submit"], ["get"], ["list", "--nope"], ["get", "x", "-o", "xml"]])
def test_a_wrong_command_line(muster: Command, words: list[str]) -> None:
    ran = muster(*words)
    assert ran.code == 2
    assert ran.err.startswith("muster: ")
    assert not ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["why"], "why: WORKLOAD is missing"),
        (["simulate"], "simulate: FILE is missing"),
        (["what-if"], "what-if: --file is missing"),
        (["projects", "create"], "projects create: NAME is missing"),
        (["node-pools", "create", "lab"], "node-pools create: NAME is missing"),
        (["why", "--workload"], 'Command "why" parameter --workload requires an argument.'),
        (
            ["node-pools", "create", "lab", "--cluster", "north", "--label", "a=b"],
            "node-pools create: 'lab' stands alone, and --cluster before it is an option: write CLUSTER NAME",
        ),
    ],
)
def test_a_word_that_is_missing_is_called_as_the_help_calls_it(muster: Command, words: list[str], said: str) -> None:
    ran = muster(*words, server=False)
    assert ran.code == 2
    assert ran.err.startswith(f"muster: {said}")


def test_a_wrong_command_line_for_programs(muster: Command) -> None:
    told = json.loads(muster("submti", "--json").err)
    assert told["error"]["code"] == "USAGE"


def test_a_name_that_several_projects_have(muster: Command, world: World) -> None:
    world.add("bert", project="team-a")
    world.add("bert", project="team-b")
    ran = muster("get", "bert")
    assert ran.code == 2
    assert "team-a, team-b" in ran.err
    assert muster("get", "bert", "-p", "team-b").code == 0


def test_everything_has_help(muster: Command) -> None:
    out = muster("--help", server=False).out
    for verb in ("submit", "why", "dead-letters", "up", "demo"):
        assert f" {verb} " in out
    assert "--timeout" in muster("submit", "--help", server=False).out
