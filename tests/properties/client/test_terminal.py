"""Whatever text comes from outside, no renderer of the client lets a control character reach the terminal."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import RenderableType

import muster_client
from muster.api.v1 import (
    access_pb2,
    dead_letters_pb2,
    explain_pb2,
    policies_pb2,
    templates_pb2,
    triggers_pb2,
    usage_pb2,
    workloads_pb2,
)
from muster.events.v1 import scheduler_pb2
from muster.fleet.v1 import fleet_pb2
from muster.policy.v1 import policy_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import workload_pb2
from muster_client.cli.failures import show_failure, show_usage_error
from muster_client.cli.output import emit, emit_line, note, say
from muster_client.cli.printable import coloured_line, json_safe, one_line, printable
from muster_client.cli.render import (
    access,
    describe,
    events,
    organisation,
    policies,
    prospects,
    sources,
    tables,
    triggers,
    why,
    wide,
)
from muster_client.cli.render.logs import Lines
from muster_client.errors import Detail, InvalidInput, NotFound, Unavailable, Violation
from tests.support.hostile_text import filled, harm_in, hostile_texts

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
HOUSE: Final = Path(muster_client.__file__).parent
SGR: Final = re.compile("\x1b\\[[0-9;:]*m")


def lost(text: str) -> workload_pb2.Workload:
    """A workload that runs no more where it was placed."""
    workload = workload_pb2.Workload(name=text, phase=workload_pb2.PHASE_DEGRADED)
    workload.reason.code, workload.reason.message = "NodeLost", text
    return workload


RENDERERS: Final[dict[str, Callable[[str], RenderableType]]] = {
    "access.sentence": lambda text: access.sentence(filled(access_pb2.AccessRule, text)),
    "access.rules": lambda text: access.rules([filled(access_pb2.AccessRule, text)]),
    "access.caller": lambda text: access.caller(filled(access_pb2.WhoAmIResponse, text)),
    "access.applications": lambda text: access.applications([filled(access_pb2.Application, text)]),
    "access.audit": lambda text: access.audit([filled(access_pb2.AuditEntry, text)]),
    "describe.describe": lambda text: describe.describe(filled(workload_pb2.Workload, text), NOW),
    "describe.asks": lambda text: describe.asks(filled(workload_pb2.Workload, text)),
    "events.heading": lambda _: events.heading(),
    "events.event_lines": lambda text: "\n".join(events.event_lines([filled(workloads_pb2.WorkloadEvent, text)])),
    "organisation.deserves": lambda text: organisation.deserves(filled(tenancy_pb2.Project, text)),
    "organisation.applied": lambda text: organisation.applied(filled(tenancy_pb2.NodePool, text)),
    "organisation.projects": lambda text: organisation.projects([filled(tenancy_pb2.Project, text)]),
    "organisation.shares": lambda text: organisation.shares([filled(fleet_pb2.Account, text)]),
    "organisation.promises": lambda text: organisation.promises([filled(fleet_pb2.Account, text)]),
    "organisation.departments": lambda text: organisation.departments([filled(tenancy_pb2.Department, text)]),
    "organisation.node_pools": lambda text: organisation.node_pools([filled(tenancy_pb2.NodePool, text)]),
    "organisation.project": lambda text: organisation.project(filled(tenancy_pb2.Project, text)),
    "organisation.department": lambda text: organisation.department(filled(tenancy_pb2.Department, text)),
    "policies.outcome_word": lambda text: policies.outcome_word(filled(policies_pb2.WrittenPolicy, text)),
    "policies.scope_text": lambda text: policies.scope_text(text, text),
    "policies.title": lambda text: policies.title(filled(policies_pb2.Policy, text)),
    "policies.policies": lambda text: policies.policies([filled(policies_pb2.Policy, text)], NOW),
    "policies.policy": lambda text: policies.policy(filled(policies_pb2.Policy, text)),
    "policies.versions": lambda text: policies.versions([filled(policies_pb2.PolicyVersion, text)]),
    "policies.effective": lambda text: policies.effective(filled(policies_pb2.GetEffectivePolicyResponse, text)),
    "policies.rules": lambda text: policies.rules([filled(policies_pb2.EffectiveRule, text)]),
    "policies.defaults": lambda text: policies.defaults([filled(policies_pb2.EffectiveDefault, text)]),
    "policies.policy_text": lambda text: policies.policy_text(filled(policy_pb2.PolicyRef, text)),
    "policies.written_line": lambda text: policies.written_line(filled(policies_pb2.WrittenPolicy, text)),
    "policies.summary": lambda text: policies.summary([filled(policies_pb2.WrittenPolicy, text)]),
    "policies.difference": lambda text: policies.difference(
        filled(policies_pb2.WrittenPolicy, text), policies_pb2.Policy(), text
    ),
    "policies.issue_text": lambda text: policies.issue_text(filled(policy_pb2.ComplianceIssue, text)),
    "prospects.prospect_text": lambda text: prospects.prospect_text(filled(explain_pb2.Prospect, text), [text], NOW),
    "prospects.displaced_text": lambda text: prospects.displaced_text(filled(explain_pb2.WhatIfResponse, text)),
    "sources.commented": lambda text: sources.commented(
        "spec: {image: {value: x}}\n",
        workload_pb2.WorkloadSpec(image="x"),
        [policy_pb2.Source(path="image", layer=text)],
        {},
    ),
    "tables.coloured": tables.coloured,
    "tables.troubles": lambda text: "\n".join(tables.troubles([lost(text)])),
    "tables.free_gpus": lambda text: tables.free_gpus(filled(fleet_pb2.NodeView, text)),
    "tables.places": lambda text: str(tables.places(filled(fleet_pb2.NodeView, text))),
    "tables.free_replicas": lambda text: tables.free_replicas(filled(fleet_pb2.NodeView, text)),
    "tables.ready": lambda text: tables.ready(filled(workload_pb2.Workload, text)),
    "tables.workloads": lambda text: tables.workloads([filled(workload_pb2.Workload, text)], NOW),
    "tables.templates": lambda text: tables.templates([filled(templates_pb2.Template, text)]),
    "tables.findings": lambda text: tables.findings([filled(fleet_pb2.Finding, text)]),
    "tables.clusters": lambda text: tables.clusters([filled(fleet_pb2.Cluster, text)], NOW),
    "tables.nodes": lambda text: tables.nodes([filled(fleet_pb2.NodeView, text)]),
    "tables.usage": lambda text: tables.usage([filled(usage_pb2.WorkloadUsage, text)]),
    "tables.dead_letters": lambda text: tables.dead_letters([filled(dead_letters_pb2.DeadLetter, text)], NOW),
    "tables.gaps": lambda text: tables.gaps([filled(dead_letters_pb2.Gap, text)], NOW),
    "triggers.triggers": lambda text: triggers.triggers([filled(triggers_pb2.Trigger, text)]),
    "triggers.trigger": lambda text: triggers.trigger(filled(triggers_pb2.GetTriggerResponse, text)),
    "triggers.firings": lambda text: triggers.firings([filled(triggers_pb2.Firing, text)], NOW),
    "triggers.fired": lambda text: triggers.fired(filled(triggers_pb2.Firing, text)),
    "triggers.prospect": lambda text: triggers.prospect(filled(triggers_pb2.TestTriggerResponse, text)),
    "wide.workloads": lambda text: wide.workloads([filled(workload_pb2.Workload, text)], NOW),
    "wide.layout_words": lambda text: wide.layout_words(filled(fleet_pb2.LayoutChange, text)),
    "wide.node": lambda text: wide.node(filled(fleet_pb2.NodeView, text)),
    "why.why_text": lambda text: why.why_text(filled(scheduler_pb2.Explanation, text), NOW),
    "why.blocked_text": lambda text: why.blocked_text(filled(scheduler_pb2.Explanation, text), NOW),
}
_CALCULATORS: Final = {"amounts", "grid", "plain", "logs"}


def shown(act: Callable[[], object]) -> str:
    """What an act printed, on stdout and stderr."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    with redirect_stdout(output), redirect_stderr(output):
        act()
    output.flush()
    assert isinstance(output.buffer, io.BytesIO)
    return output.buffer.getvalue().decode()


@pytest.mark.parametrize("name", RENDERERS)
@given(text=hostile_texts)
@settings(max_examples=8)
def test_no_control_character_reaches_the_terminal(name: str, text: str) -> None:
    output = shown(lambda: say(RENDERERS[name](text)))
    assert output
    assert not harm_in(output)


@given(text=hostile_texts, row=st.sampled_from(["  Owner     admin", "\tOwner  admin", "  Has  8 GPUs", "Replicas"]))
@example(text="", row="  Owner     admin (system-admin)")
def test_no_line_of_a_reason_passes_for_a_row_of_its_workload(text: str, row: str) -> None:
    workload = workload_pb2.Workload(name="train", phase=workload_pb2.PHASE_FAILED)
    workload.reason.message = f"rank 0 ended first{text}\n{row}\n{text}"
    lines = shown(lambda: say(describe.describe(workload, NOW))).splitlines()
    assert not [line for line in lines if line.rstrip() == row or line.startswith(("  Owner", "  Has"))]


def test_every_renderer_is_among_them() -> None:
    made = {
        f"{path.stem}.{node.name}"
        for path in (HOUSE / "cli" / "render").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and path.stem not in _CALCULATORS
    }
    assert made <= set(RENDERERS)


def test_only_the_output_prints() -> None:
    ways = re.compile(r"\bprint\(|\bConsole\(|sys\.std(out|err)\.(write|buffer)|\.print\(")
    found = [
        str(path.relative_to(HOUSE))
        for path in HOUSE.rglob("*.py")
        if path.name != "output.py" and ways.search(path.read_text())
    ]
    assert not found, f"these print by themselves; muster_client.cli.output does it: {found}"


@given(text=hostile_texts)
def test_errors_and_notes_carry_no_control_character(text: str) -> None:
    violations = (Violation(text, text, 3, 4), Violation("", text))
    problems = [NotFound(text), InvalidInput(text, detail=Detail(violations=violations)), Unavailable(text)]

    def act() -> None:
        for problem in problems:
            problem.source = text
            show_failure(problem, as_json=False)
            show_failure(problem, as_json=True)
        note(text)
        show_usage_error(ValueError(text), as_json=False)  # type: ignore[arg-type]  # its text is all that is used

    assert not harm_in(shown(act))


@given(text=hostile_texts)
def test_json_escapes_and_reads_back_the_same(text: str) -> None:
    message = workload_pb2.Workload(name=text, project=text)
    output = shown(lambda: emit([message, message]))
    assert not harm_in(output)
    assert [each["name"] for each in json.loads(output)] == [text, text]
    (line,) = shown(lambda: emit_line(message)).splitlines()
    assert json.loads(line)["project"] == text
    assert json.loads(json_safe(json.dumps(text))) == text


@given(texts=st.lists(hostile_texts, max_size=5), cut=st.integers(1, 7))
def test_logs_pass_colours_and_nothing_else(texts: list[str], cut: int) -> None:
    data = "\n".join(texts).encode()
    lines = Lines(alone=False)
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    output = b"".join([*(lines.take("worker-0", each) for each in pieces), lines.rest()]).decode()
    assert not harm_in(SGR.sub("", output))
    assert all(line.startswith("worker-0  ") for line in output.split("\n")[:-1])


@given(texts=st.lists(hostile_texts, max_size=5))
def test_a_raw_log_is_the_bytes_of_the_replica(texts: list[str]) -> None:
    data = "\n".join(texts).encode()
    lines = Lines(alone=True, raw=True)
    assert (lines.take("worker-0", data) + lines.rest()).removesuffix(b"\n") == data.removesuffix(b"\n")


@given(text=hostile_texts)
def test_a_second_pass_changes_nothing(text: str) -> None:
    assert printable(printable(text)) == printable(text)
    assert "\n" not in one_line(text)
    assert coloured_line(coloured_line(one_line(text))) == coloured_line(one_line(text))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b[31mred", "\x1b[31mred\x1b[0m"),
        ("\x1b]0;owned\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2J\x1b[Htext\x1b[10A", "text"),
        ("a\x08b\u202ec", r"a\x08b\u202ec"),
        ("half a sequence \x1b[31", "half a sequence \\x1b[31"),
        ("plain\ttext", "plain\ttext"),
    ],
)
def test_lines_of_a_log(line: str, expected: str) -> None:
    assert coloured_line(line) == expected


def test_a_progress_bar_shows_its_states_one_below_the_other() -> None:
    lines = Lines(alone=True)
    assert lines.take("worker-0", b"\r 10%\r 20%\r\n done\r\n") == b" 10%\n 20%\n done\n"


def test_a_line_without_an_end_is_shown_in_parts() -> None:
    lines = Lines(alone=True)
    assert len(lines.take("worker-0", b"x" * (1 << 20))) == 0
    assert len(lines.take("worker-0", b"x")) == (1 << 20) + 2


def test_markup_of_names_is_no_markup() -> None:
    name: Any = tables.workloads([workload_pb2.Workload(name="[/red]", project=":smile:")], NOW)
    output = shown(lambda: say(name))
    assert "[/red]" in output
    assert ":smile:" in output
