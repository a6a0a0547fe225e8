"""The guides tell the truth: their documents are valid, their verbs exist, their exit codes are ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Self

import pytest

import muster_language as language
from muster.api.v1 import workloads_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.topics import TRIGGERS
from muster_client.cli.app import build, run
from muster_client.cli.exits import Exit
from muster_client.cli.trigger_files import read_trigger
from muster_submission.adapters.cel import evaluate
from muster_submission.adapters.protobuf_events import unpack
from muster_submission.adapters.trigger_records import rule_of
from muster_submission.domain import cloudevents
from muster_submission.domain.expressions import Question, Values
from tests.support.plane_world import WORKLOAD_ID, World

DOCS = Path(__file__).parents[3] / "docs"
GUIDES = ("guide.md", "cli.md", "guides/troubleshooting.md")


def blocks(guide: str, kind: str) -> list[str]:
    """The code blocks of a kind."""
    text = (DOCS / guide).read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "text", [text for text in blocks("guide.md", "yaml") if "apiVersion" in text and "name: broken" not in text]
)
def test_every_document_is_valid(text: str) -> None:
    (document,) = language.read(text)
    assert not document.violations


def test_the_first_steps_of_the_readme_work_as_they_stand(
    plane: tuple[str, World], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, world = plane
    world.projects = []
    readme = (DOCS.parent / "README.md").read_text()
    told = [line.split("#")[0].split() for line in re.findall(r"^ {4}\.venv/bin/muster (.*)$", readme, re.MULTILINE)]
    assert [words[0] for words in told] == ["up", "projects", "submit", "list", "logs", "why"]
    monkeypatch.chdir(DOCS.parent)
    monkeypatch.setenv("MUSTER_SERVER", server)
    for words in told[1:4]:
        assert run(words) == 0, capsys.readouterr().err
    (made,) = world.asked("CreateProject")
    (submitted,) = world.asked("SubmitWorkload")
    (document,) = language.read(submitted.draft.yaml)
    assert document.namespace == f"runai-{made.name}"
    assert {words[1] for words in told[4:]} == {document.object_name}


def test_the_trigger_is_valid(tmp_path: Path) -> None:
    (text,) = (text for text in blocks("guide.md", "yaml") if "apiVersion" not in text)
    (tmp_path / "trigger.yaml").write_text(text)
    trigger = read_trigger(tmp_path / "trigger.yaml")
    assert (trigger.name, trigger.template) == ("on-new-data", "nightly")
    assert dict(trigger.environment) == {"DATASET": "data.uri", "EVENT": "event.id"}


class _Broker:
    """A broker of one topic, and the producer that a program makes for it."""

    records: ClassVar[list[tuple[str, bytes, list[tuple[str, bytes]]]]] = []

    def __init__(self, **connection: str) -> None:
        assert connection == {
            "bootstrap_servers": "127.0.0.1:9092",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "producer-send",
            "sasl_plain_password": "swordfish",
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def send_and_wait(self, topic: str, value: bytes, *, headers: list[tuple[str, bytes]]) -> None:
        self.records.append((topic, value, headers))


def test_the_event_starts_the_run_of_the_trigger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (program,) = (text for text in blocks("guide.md", "python") if "aiokafka" in text)
    monkeypatch.setattr("aiokafka.AIOKafkaProducer", _Broker)
    (tmp_path / "password").write_text("swordfish\n")
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "127.0.0.1:9092")
    monkeypatch.setenv("MUSTER_KAFKA_USER", "producer-send")
    monkeypatch.setenv("MUSTER_KAFKA_PASSWORD_FILE", str(tmp_path / "password"))
    exec(compile(program, "guide.md", "exec"), {"__name__": "__main__"})  # noqa: S102  what the guide says
    ((topic, value, headers),) = _Broker.records
    assert topic == TRIGGERS.name
    event = cloudevents.read(headers, value, unpack)
    assert isinstance(event, cloudevents.CloudEvent)
    (text,) = (text for text in blocks("guide.md", "yaml") if "apiVersion" not in text)
    (tmp_path / "trigger.yaml").write_text(text)
    told = read_trigger(tmp_path / "trigger.yaml")
    rule = rule_of(told)
    assert rule.takes(event)
    found = evaluate(Question(rule.expressions(), event))
    assert isinstance(found, Values)
    wanted = {"environment.DATASET": "s3://datasets/2026-11-20", "environment.EVENT": "2026-11-20"}
    assert found.texts == wanted


@pytest.mark.parametrize(
    ("phase", "told"), [(workload_pb2.PHASE_COMPLETED, "completed"), (workload_pb2.PHASE_FAILED, "exit code 3")]
)
def test_the_program_runs(
    plane: tuple[str, World],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    phase: workload_pb2.Phase.ValueType,
    told: str,
) -> None:
    server, world = plane
    (program,) = (text for text in blocks("guide.md", "python") if "import Muster," in text)
    monkeypatch.setenv("MUSTER_SERVER", server)
    world.log = [("worker-0", b"Python 3"), ("worker-0", b".13\n")]
    ended = workload_pb2.Workload(id=f"{WORKLOAD_ID}1", name="from-a-program", phase=phase)
    ended.reason.message = "exit code 3"
    pending = workload_pb2.Workload(id=ended.id, name=ended.name, phase=workload_pb2.PHASE_PENDING)
    item = workloads_pb2.WatchWorkloadsResponse
    world.watches.append(
        [
            item(kind=workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT, cursor="1", workload=pending),
            item(kind=workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT_END, cursor="1"),
            item(kind=workloads_pb2.WATCH_ITEM_KIND_CHANGE, cursor="2", workload=ended),
        ]
    )
    exec(compile(program, "guide.md", "exec"), {"__name__": "__main__"})  # noqa: S102  what the guide says
    assert capsys.readouterr().out == f"worker-0 Python 3.13\nfrom-a-program {told}\n"
    (submitted,) = world.asked("SubmitWorkload")
    assert submitted.draft.project == "vision"


def test_the_program_without_asyncio_runs(
    plane: tuple[str, World], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, world = plane
    (program,) = (text for text in blocks("guide.md", "python") if "MusterSync" in text)
    monkeypatch.setenv("MUSTER_SERVER", server)
    world.add("steps", project="vision")
    exec(compile(program, "guide.md", "exec"), {"__name__": "__main__"})  # noqa: S102  what the guide says
    assert capsys.readouterr().out == "steps\n"


def test_every_program_of_a_page_is_a_file_that_the_type_checker_reads() -> None:
    pages = [page for page in DOCS.rglob("*.md") if "decisions" not in page.parts]
    told = {text for page in pages for text in blocks(str(page.relative_to(DOCS)), "python")}
    assert told == {path.read_text() for path in (DOCS / "examples" / "programs").glob("*.py")}


def _verbs_told(guide: str) -> set[str]:
    text = (DOCS / guide).read_text()
    told = set(re.findall(r"\$ muster ([a-z-]+)", text))
    table = re.findall(r"^\| `([^|]*)\|", text, flags=re.MULTILINE)
    return told | {word for cell in table for word in re.findall(r"^([a-z][a-z-]+)", cell)}


@pytest.mark.parametrize("guide", GUIDES)
def test_every_verb_exists(guide: str) -> None:
    assert _verbs_told(guide) <= set(build().resolved_commands())


def test_every_verb_is_told() -> None:
    told = (DOCS / "cli.md").read_text()
    for verb in build().resolved_commands():
        assert verb.startswith("-") or f"`{verb}" in told, verb


def test_every_exit_code_is_told() -> None:
    told = {int(code) for code in re.findall(r"^\| ([0-9]+) \|", (DOCS / "cli.md").read_text(), flags=re.MULTILINE)}
    assert told == {int(code) for code in Exit}
