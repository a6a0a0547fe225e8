"""Every table of the command line at 80 columns, with names as long as names may be: no column is lost."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from muster.api.v1 import access_pb2, dead_letters_pb2, policies_pb2, templates_pb2, triggers_pb2, usage_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.policy.v1.policy_pb2 import PolicyRef
from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import workload_pb2
from muster_client.cli.render import access, describe, organisation, policies, tables, triggers, wide
from muster_client.cli.render import grid as grids

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = "n" * 63
PROJECT, CLUSTER, OTHER = "p" * 57, "c" * 63, "o" * 63
ID = "0192d3c4-0000-7000-8000-000000000000"
QUOTA = tenancy_pb2.PoolQuota(node_pool=OTHER, gpu_deserved=7000 * 10_000, gpu_limit=7000 * 10_000)


def workload() -> workload_pb2.Workload:
    made = workload_pb2.Workload(id=ID, name=LONG, project=PROJECT, cluster=CLUSTER)
    made.phase = workload_pb2.PHASE_INITIALIZING
    made.spec.kind = options_pb2.KIND_DISTRIBUTED
    made.replicas.add(role="worker", index=9999, state="READY", node=OTHER, devices=[f"GPU-{ID}"] * 8)
    made.conditions.add(type="FieldsIgnored", status=True, reason={"message": "image had no effect " * 9})
    attempt = made.attempts.add(number=10**6, cluster=CLUSTER, cause={"message": "because " * 30})
    for moment in (attempt.placed_at, attempt.running_at, attempt.ended_at):
        moment.FromDatetime(NOW)
    return made


def node() -> fleet_pb2.NodeView:
    made = fleet_pb2.NodeView(name=LONG, cluster=CLUSTER, pool=OTHER, cpu_milli=256_000, memory_bytes=2 << 40)
    made.devices.add(free_milli=1000, workloads=[PROJECT])
    made.devices.add(uuid=ID, mode="mig").slices.add(profile="1g.5gb", held=True)
    return made


_PATH = "worker.environmentVariables.instances"


def _scope() -> policies_pb2.PolicyScope:
    return policies_pb2.PolicyScope(level="department", unit=LONG)


def _ref() -> PolicyRef:
    return PolicyRef(name=LONG, version=10**6, scope="department", unit=OTHER)


TABLES: dict[str, Callable[[], RenderableType]] = {
    "tables.workloads": lambda: tables.workloads([workload()], NOW),
    "tables.templates": lambda: tables.templates([templates_pb2.Template(name=LONG, project=PROJECT, version=10**6)]),
    "tables.clusters": lambda: tables.clusters(
        [fleet_pb2.Cluster(id=LONG, nodes=10_000, devices=80_000, free_devices=0.5, agent_instance=ID)], NOW
    ),
    "tables.nodes": lambda: tables.nodes([node()]),
    "wide.workloads": lambda: wide.workloads([workload()], NOW),
    "wide._devices": lambda: wide._devices(node()),
    "wide._slices": lambda: wide._slices(node()),
    "tables.usage": lambda: tables.usage(
        [usage_pb2.WorkloadUsage(project=PROJECT, name=LONG, gpu_seconds=1234567890.5)]
    ),
    "tables.gaps": lambda: tables.gaps(
        [dead_letters_pb2.Gap(service=LONG, topic=LONG, aggregate=LONG, first=3, last=5, waiting=7)], NOW
    ),
    "tables.dead_letters": lambda: tables.dead_letters(
        [
            dead_letters_pb2.DeadLetter(
                id=ID, service="cluster-agent", topic=LONG, reason=f"{OTHER} {'why ' * 99}", attempts=10**4
            )
        ],
        NOW,
    ),
    "organisation.shares": lambda: organisation.shares(
        [
            fleet_pb2.Account(
                project=PROJECT,
                node_pool=OTHER,
                allocated=fleet_pb2.Amount(gpu=7000 * 10_000),
                requested=fleet_pb2.Amount(gpu=7000 * 10_000),
                pending_workloads=10**6,
                gpu_fair=7000 * 10_000,
                gpu_deserved=7000 * 10_000,
            )
        ]
    ),
    "organisation.projects": lambda: organisation.projects(
        [tenancy_pb2.Project(name=PROJECT, department=LONG, namespace=CLUSTER, quotas=[QUOTA])]
    ),
    "organisation.departments": lambda: organisation.departments(
        [tenancy_pb2.Department(name=LONG, quotas=[QUOTA], rank=1000)]
    ),
    "organisation.node_pools": lambda: organisation.node_pools(
        [tenancy_pb2.NodePool(name=LONG, cluster=CLUSTER, label_key=f"run.ai/{OTHER}", label_value=PROJECT)]
    ),
    "access.rules": lambda: access.rules(
        [
            access_pb2.AccessRule(
                id=10**9,
                holder_kind="subject",
                holder=LONG,
                role="department-admin",
                scope_kind="project",
                scope=PROJECT,
            )
        ]
    ),
    "access.applications": lambda: access.applications([access_pb2.Application(name=LONG, id=ID, enabled=True)]),
    "triggers.triggers": lambda: triggers.triggers(
        [triggers_pb2.Trigger(name=LONG, project=PROJECT, template=OTHER, fired=10**9, event_type=CLUSTER)]
    ),
    "triggers.firings": lambda: triggers.firings(
        [
            triggers_pb2.Firing(
                id=ID,
                trigger=LONG,
                source=OTHER,
                event_id=ID,
                number=1,
                workload=CLUSTER,
                why=OTHER,
                outcome=triggers_pb2.FIRING_OUTCOME_WAITING,
            )
        ],
        NOW,
    ),
    "policies.policies": lambda: policies.policies(
        [
            policies_pb2.Policy(
                name=LONG, workload="distributed", scope=_scope(), version=10**6, source=f"git@example.org:{OTHER}"
            )
        ],
        NOW,
    ),
    "policies.versions": lambda: policies.versions(
        [
            policies_pb2.PolicyVersion(
                version=10**6, author=LONG, channel="kubernetes", source=OTHER, reason="since " * 30, document="x"
            )
        ]
    ),
    "policies.rules": lambda: policies.rules(
        [policies_pb2.EffectiveRule(path=_PATH, rule="canRemove", value=f"{OTHER}, {LONG}", policy=_ref())]
    ),
    "policies.defaults": lambda: policies.defaults(
        [policies_pb2.EffectiveDefault(path=_PATH, item=LONG, value=f"name: {OTHER}", policy=_ref())]
    ),
    "tables.findings": lambda: tables.findings(
        [fleet_pb2.Finding(level=fleet_pb2.FINDING_LEVEL_ERROR, subject="runtime class", text=f"{LONG} {OTHER}")]
    ),
    "describe._attempts": lambda: describe._attempts(workload(), NOW),
    "describe._replicas": lambda: describe._replicas(workload(), NOW),
    "describe._conditions": lambda: describe._conditions(workload()),
}


def shown(table: RenderableType, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("name", TABLES)
def test_no_column_is_lost_at_80_columns(name: str) -> None:
    table = TABLES[name]()
    lines = shown(table)
    assert max(len(line) for line in lines) <= 80
    if not isinstance(table, grids.Grid):
        assert ID in lines[1].split()
        assert "".join("".join(line.split()) for line in lines).count(OTHER) >= 1
        return
    headings = [str(column.header) for column in table.columns]
    assert " ".join(lines[0].split()) == " ".join(headings)
    for column in table.columns:
        at = [_start(lines[0], headings, str(column.header), column.justify == "right", column.width or 0)]
        for text in (str(cell) for cell in column.cells if cell):
            begin, end = at[0], at[0] + (column.width or 0)
            there = [line[begin:end].strip() for line in lines[1:]]
            assert any(part and text.startswith(part.removesuffix("…")) for part in there), (column.header, there)
            assert len(text) <= (column.width or 0) or column.header not in table._numbers


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("room", [20, 50])
def test_where_the_headings_have_no_room_each_row_says_all_of_it(name: str, room: int) -> None:
    table = TABLES[name]()
    lines = shown(table, room)
    assert max(len(line) for line in lines) <= room
    if not isinstance(table, grids.Grid) or sum(table.widths(room)) + 2 * (len(table.columns) - 1) <= room:
        return
    said = "".join("".join(line.split()) for line in lines)
    for column in table.columns[1:]:
        for text in (str(cell) for cell in column.cells):
            assert "".join(f"{column.header}{text}".split()) in said


def test_a_row_that_became_a_paragraph_says_as_much_in_a_line_as_fits() -> None:
    table = grids.grid(["NODE", "CLUSTER", "MEMORY", "HELD BY"], [["n1", "here", "200Gi/256Gi", "job-1, job-2"]])
    assert shown(table, 28) == ["n1", "  CLUSTER here", "  MEMORY 200Gi/256Gi", "  HELD BY job-1, job-2"]
    assert shown(table, 27) == shown(table, 28)
    assert shown(table, 38)[0].split() == ["NODE", "CLUSTER", "MEMORY", "HELD", "BY"]


def _start(heading: str, headings: Sequence[str], word: str, right: bool, width: int) -> int:
    """Where the column under a heading begins."""
    begin = 0
    for each in headings[: headings.index(word)]:
        begin = heading.index(each, begin) + len(each)
    found = heading.index(word, begin)
    return found + len(word) - width if right else found


def test_every_table_is_among_them() -> None:
    folder = Path(grids.__file__).parent
    made = set()
    for path in folder.glob("*.py"):
        for function in (one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef)):
            if any(isinstance(one, ast.Name) and one.id == "grid" for one in ast.walk(function)):
                made.add(f"{path.stem}.{function.name}")
    assert made
    assert made <= set(TABLES)


def test_what_fits_is_not_touched_and_names_give_way_last() -> None:
    wide = grids.grid(["NAME", "PLACE", "WHY"], [["n" * 30, "p" * 30, "w" * 10]])
    assert wide.widths(200) == [30, 30, 10]
    assert wide.widths(70) == [30, 26, 10]
    assert wide.widths(50) == [28, 8, 10]
    assert wide.widths(30) == [9, 8, 9]
    assert shown(wide, 80)[1].split() == ["n" * 30, "p" * 30, "w" * 10]


@given(st.data())
def test_widths_fit_wherever_headings_do(data: Any) -> None:
    headings = data.draw(st.lists(st.text("ABC", min_size=1, max_size=8), min_size=1, max_size=8, unique=True))
    cells = data.draw(st.lists(st.integers(0, 70), min_size=len(headings), max_size=len(headings)))
    least = sum(len(each) for each in headings) + 2 * (len(headings) - 1)
    room = data.draw(st.integers(least, 200))
    table = grids.grid(headings, [["x" * each for each in cells]])
    widths = table.widths(room)
    assert sum(widths) + 2 * (len(widths) - 1) <= room
    assert all(width >= len(heading) for width, heading in zip(widths, headings, strict=True))
    natural = [max(len(heading), cell) for heading, cell in zip(headings, cells, strict=True)]
    assert widths == natural or sum(widths) + 2 * (len(widths) - 1) == room
