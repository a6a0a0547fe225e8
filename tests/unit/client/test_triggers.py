"""The verbs of `muster triggers`, and everything that the guide to them shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from muster.api.v1 import triggers_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_client.cli.render.triggers import prospect
from muster_client.cli.trigger_files import read_event, read_trigger
from muster_client.errors import InvalidInput
from muster_submission.adapters.cel import evaluate, problems
from muster_submission.adapters.protobuf_events import event_of
from muster_submission.adapters.trigger_records import rule_of
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.expressions import Question, Values
from muster_submission.domain.taken import Taken, take
from muster_submission.domain.triggers import check
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "triggers.md").read_text()
FIRING = "0192d3c4-5a3e-7000-8000-1f2e3d4c5b6a"


def block(kind: str) -> str:
    """The first block of a kind in the guide."""
    found = re.search(rf"^```{kind}\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "on-new-data.yaml").write_text(block("yaml"))
    (tmp_path / "ready.json").write_text(block("json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_guides_rule_takes_the_guides_event(files: Path) -> None:
    rule = rule_of(read_trigger(files / "on-new-data.yaml"))
    assert [one.path for one in check(rule)] == ["trigger.project"], "the command line fills it in"
    assert problems(rule.expressions(), None) == {}
    event = event_of(read_event(files / "ready.json"))
    assert isinstance(event, CloudEvent)
    assert rule.takes(event)
    found = evaluate(Question(rule.expressions(), event))
    assert isinstance(found, Values)
    assert take(rule, found.texts) == Taken(
        {"DATASET": "s3://datasets/2026-11-20", "EVENT": "2026-11-20"},
        ("--rows", "52000"),
        {"image": "registry.example/train:2"},
    )


def test_every_command_of_the_guide_works(files: Path, muster: Command, world: World) -> None:
    world.firings.append(firing())
    lines = re.findall(r"^\$ muster (triggers .*)$", GUIDE, flags=re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        ran = muster(*line.split())
        assert ran.code == 0, (line, ran.err)
    assert [name for name, _ in world.calls if name != "ListProjects"] == [
        "ApplyTrigger",
        "GetTrigger",
        "TestTrigger",
        "GetTrigger",
        "TestTrigger",
        "ListFirings",
        "ReplayFiring",
    ]
    applied = world.asked("ApplyTrigger")[0].trigger
    assert (applied.project, applied.max_running, applied.rate.runs) == ("team-a", 2, 10)
    assert world.asked("TestTrigger")[0].trigger == applied


def firing(number: int = 1, **more: object) -> api.Firing:
    made = api.Firing(id=FIRING, trigger="on-new-data", project="team-a", source="/s", event_id="e", number=number)
    made.outcome, made.workload, made.workload_id = api.FIRING_OUTCOME_STARTED, "nightly-0a1b2c3d", "w"
    made.fired_at.GetCurrentTime()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_a_trigger_is_shown_with_all_that_it_says(files: Path, muster: Command, world: World) -> None:
    muster("triggers", "apply", "-f", "on-new-data.yaml")
    shown = muster("triggers", "get", "on-new-data").out
    for said in (
        "version 1, enabled",
        "2 runs have not ended, 1 firings wait",
        "org.example.dataset.* from /datasets, /imports/* about vision/* where data.rows > 1000",
        "DATASET = data.uri",
        "argument '--rows'",
        "image = 'registry.example/train:' + data.version, one of registry.example/train:1",
        "limits: 2 at once and 10 within 3600 s; what is above waits 7200 s, 100 at most",
    ):
        assert said in shown
    world.triggers["on-new-data"].switched_off_because = "its expressions ran away"
    world.triggers["on-new-data"].excess.policy = api.TRIGGER_EXCESS_POLICY_DROP
    stopped = muster("triggers", "get", "on-new-data").out
    assert "stopped" in stopped
    assert "switched off: its expressions ran away" in stopped
    assert "what is above is dropped" in stopped
    assert "on-new-data" in muster("triggers", "list").out
    assert json.loads(muster("triggers", "get", "on-new-data", "--json").out)["running"] == 2
    gone = muster("triggers", "delete", "on-new-data")
    assert gone.out == "trigger on-new-data of team-a is gone, 3 waiting firings with it\n"
    missing = muster("triggers", "delete", "on-new-data")
    assert (missing.code, "does not exist" in missing.err) == (3, True)
    assert muster("triggers", "list").out.startswith("no triggers")


def test_a_test_says_what_would_happen(files: Path, muster: Command, world: World) -> None:
    given = block("json").replace("org.example.dataset.ready", "org.example.dataset.*")
    (files / "same.json").write_text(given)
    told = muster("triggers", "test", "-f", "on-new-data.yaml", "--event", "same.json").out
    assert told.startswith("started: nightly-0a1b2c3d\nbut this event has fired the trigger before")
    assert "args: --fast 'a b'" in told
    nothing = muster("triggers", "test", "-f", "on-new-data.yaml", "--event", "ready.json").out
    assert nothing == "nothing: the condition is false\n"
    for words in ([], ["x", "-f", "on-new-data.yaml"]):
        ran = muster("triggers", "test", *words, "--event", "ready.json")
        assert (ran.code, "which trigger?" in ran.err) == (2, True)


def test_what_a_run_says_is_shown_where_something_is_said_and_as_json() -> None:
    spec = wl.WorkloadSpec(image="a/b:1")
    spec.environment.add(label="FOO", value="bär")
    told = prospect(api.TestTriggerResponse(matches=True, outcome=api.FIRING_OUTCOME_STARTED, spec=spec)).splitlines()
    assert "  image: a/b:1" in told
    (environment,) = (line for line in told if line.startswith("  environment: "))
    (variable,) = json.loads(environment.partition(": ")[2])
    assert (variable["label"], variable["value"]) == ("FOO", "bär")
    assert len(told) == 4, told


def test_a_file_that_is_no_yaml_is_told_with_its_line_and_column(files: Path, muster: Command) -> None:
    (files / "broken.yaml").write_text("name: a\nfields: [a\ntype: b\n")
    for words in (["apply", "-f", "broken.yaml"], ["test", "-f", "on-new-data.yaml", "--event", "broken.yaml"]):
        ran = muster("triggers", *words)
        assert ran.code != 0
        assert ran.err.startswith("broken.yaml:3:5: this is not YAML: while parsing a flow sequence")
        assert "unicode string" not in ran.err


def test_firings_are_listed_and_replayed(muster: Command, world: World) -> None:
    world.firings.extend(firing(3 - at) for at in range(3))
    world.firings[1].ClearField("workload")
    world.firings[1].outcome, world.firings[1].why = api.FIRING_OUTCOME_ERROR, "data has no member x"
    listed = json.loads(muster("triggers", "firings", "--json").out)
    assert [int(one["number"]) for one in listed] == [3, 2, 1]
    table = muster("triggers", "firings", "on-new-data", "--limit", "2").out.splitlines()
    assert len([row for row in table if row.startswith(FIRING)]) == 2
    assert muster("triggers", "firings", "other").out.startswith("nothing was fired")
    assert muster("triggers", "firings", "--limit", "0").code == 2
    again = muster("triggers", "replay", FIRING).out
    assert again.startswith("firing 4 of trigger on-new-data by /s e: waiting")
    assert "have not ended" in again


def test_everything_wrong_with_a_file_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "trigger.yaml"
    path.write_text(
        "name: a\ntemplate: b\neventType: t\neventSources: 3\ncondition: [x]\nenvironment: text\narguments: [1]\n"
        "fields: [{path: image, value: 1, other: x}, 7]\nmaxRunning: -1\nrate: {runs: many}\nexcess: {policy: maybe}\n"
        "windowSeconds: 99999999999999999999\ndataSchema: {descriptorSet: nowhere.pb}\nenabled: 1\n"
    )
    with pytest.raises(InvalidInput) as refused:
        read_trigger(path)
    assert [one.path for one in refused.value.violations] == [
        "eventSources",
        "condition",
        "environment",
        "arguments[0]",
        "fields[0].other",
        "fields[0].value",
        "fields[0].allowed",
        "fields[1]",
        "maxRunning",
        "rate.runs",
        "rate.perSeconds",
        "excess.policy",
        "windowSeconds",
        "dataSchema.message",
        "dataSchema.descriptorSet",
        "enabled",
    ]
    path.write_text("fields: 3\nrate: 4\ndataSchema: {message: m}\n")
    with pytest.raises(InvalidInput, match="7 errors"):
        read_trigger(path)
    for text, why in (("[]", "expected a mapping"), ("\x00", "not YAML"), ("a: [", "1 error")):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=why):
            read_trigger(path)
    with pytest.raises(InvalidInput, match="No such file"):
        read_trigger(tmp_path / "missing.yaml")


def test_a_schema_is_a_file_beside_the_trigger(tmp_path: Path) -> None:
    (tmp_path / "acme.pb").write_bytes(b"\x0a\x00")
    (tmp_path / "t.yaml").write_text(
        "name: a\ntemplate: b\neventType: t\neventSources: '*'\nrunAs: robot\n"
        "dataSchema: {descriptorSet: acme.pb, message: acme.Ready}\nexcess: {policy: drop}\n"
    )
    read = read_trigger(tmp_path / "t.yaml")
    assert (read.data_schema.descriptor_set, read.data_schema.message) == (b"\x0a\x00", "acme.Ready")
    assert (read.run_as, list(read.event_sources)) == ("robot", ["*"])
    assert read.excess.policy == api.TRIGGER_EXCESS_POLICY_DROP


def test_events_are_read_in_their_json_form(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"id": "1", "source": "/s", "type": "t", "attempt": 3, "dry": true, "data_base64": "eA=="}')
    event = read_event(path)
    assert event.binary_data == b"x"
    assert {name: one.ce_string for name, one in event.attributes.items()} == {"attempt": "3", "dry": "true"}
    path.write_text('{"id": "1", "source": "/s", "type": "t", "datacontenttype": "text/plain", "data": "plain"}')
    assert read_event(path).text_data == "plain"
    path.write_text('{"id": "1", "source": "/s", "type": "t", "data": "json"}')
    assert read_event(path).text_data == '"json"'
    path.write_text('{"id": 1.5, "data_base64": "!"}')
    with pytest.raises(InvalidInput) as refused:
        read_event(path)
    assert [one.path for one in refused.value.violations] == ["id", "data_base64", "source", "type"]
