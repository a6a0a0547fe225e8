"""Scenario files: what they say, and what is wrong with them, with line, path and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind
from muster_scheduler.domain.asked.terms import Label, Terms
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.pools import Strategy
from muster_scheduler.simulation.members import span
from muster_scheduler.simulation.problems import Unusable
from muster_scheduler.simulation.reading import read_scenario
from muster_scheduler.simulation.scenario import DAY

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "simulate.yaml"
SMALL = """
clusters:
  - {name: c, nodes: [{name: n, count: 2, gpus: 8}]}
projects:
  - {name: p, quotas: {default: {gpus: 16}}}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(Unusable) as caught:
        read_scenario(written(tmp_path, text))
    return [(problem.line, problem.path, problem.text) for problem in caught.value.problems]


def test_the_example_in_the_documentation_is_read() -> None:
    scenario = read_scenario(EXAMPLE)
    assert (scenario.name, scenario.gpus, len(scenario.tenants)) == ("a-day", 256, 3)
    assert scenario.pace.length == DAY
    assert [unit.department for unit in scenario.departments] == ["research", "products"]
    assert scenario.departments[0].quotas[0][1].deserved == 192 * GPU
    assert scenario.tenants[2].quotas[0][1].limit == 128 * GPU
    assert [job.at for job in scenario.jobs] == sorted(job.at for job in scenario.jobs)
    release = next(job for job in scenario.jobs if job.name == "release")
    assert (release.at, release.duration) == (9 * 3600 * SECOND, 3 * 3600 * SECOND)
    assert (release.request.roles[0].size, release.request.preemptible) == (4, False)
    assert scenario.changes[0].tenant.quotas[0][1].deserved == 64 * GPU


def test_days_override_what_the_file_says() -> None:
    assert read_scenario(EXAMPLE, days=0.5).pace.length == DAY // 2
    assert all(job.at <= DAY // 2 for job in read_scenario(EXAMPLE, days=0.5).jobs)


def test_a_portion_is_a_portion(tmp_path: Path) -> None:
    text = SMALL + "workloads: [{project: p, gpus: 0.5, duration: 60}]\n"
    (job,) = read_scenario(written(tmp_path, text)).jobs
    assert (job.request.roles[0].shape.kind, job.request.roles[0].shape.milli) == (Kind.PORTION, 500)


def test_jobs_say_in_which_clusters_they_would_rather_be(tmp_path: Path) -> None:
    groups = "clusters: [{name: c, nodes: [{}]}, {name: d, nodes: [{name: n, labels: [data=x, zone=]}]}]\n"
    said = "workloads: [{project: p, duration: 60, clusters: [d, c], preferredClusters: c, dataLabel: data=x}]\n"
    scenario = read_scenario(written(tmp_path, groups + "projects: [{name: p}]\n" + said))
    assert [group.labels for group in scenario.fleet] == [(), (("data", "x"), ("zone", ""))]
    asked = scenario.jobs[0].request
    assert (asked.clusters, asked.terms) == (("c", "d"), Terms(preferred_clusters=("c",), data=Label("data", "x")))


def test_a_trace_of_our_own_brings_the_workloads(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,project,at,duration,gpus,replicas\na,p,1m,2h,4,2\n,p,0,90,0.5,1\n")
    scenario = read_scenario(written(tmp_path, SMALL + "trace: t.csv\n"))
    assert [(job.at // SECOND, job.duration // SECOND) for job in scenario.jobs] == [(0, 90), (60, 7200)]
    assert scenario.jobs[1].request.roles[0].size == 2


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("20m", 1200), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172_800)]
)
def test_times_as_people_write_them(text: str, seconds: int) -> None:
    assert span(text) == seconds * SECOND


@pytest.mark.parametrize("text", ["", "h", "1x", "-5", "1h 30m", "1e9", "500d", "9" * 400])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"allowed|write|at most"):
        span(text)


@pytest.mark.parametrize(
    ("text", "line", "path", "said"),
    [
        ("clusters: 5\nprojects: []\n", 1, "clusters", "no list"),
        (SMALL + "days: tomorrow\n", 6, "days", "a number from"),
        (SMALL + "dayz: 1\n", 6, "dayz", "allowed are"),
        (SMALL + "days: 1\ndays: 2\n", 7, "days", "twice"),
        (SMALL + "workloads: [{project: q, duration: 60}]\n", 6, "workloads[0].project", "there is no project 'q'"),
        (SMALL + 'name: "a\\e[31mb"\n', 6, "name", "control characters"),
        (SMALL + "workloads: [{project: p}]\n", 6, "workloads[0].duration", "missing"),
        (SMALL + "workloads: [{project: p, duration: 0s}]\n", 6, "workloads[0].duration", "too short"),
        (SMALL + "workloads: [{project: p, duration: 1m, gpus: 1.5}]\n", 6, "workloads[0].gpus", "portion"),
        (SMALL + "workloads: [{project: p, duration: 1m, gpus: 99}]\n", 6, "workloads[0].gpus", "at most 16"),
        (SMALL + "workloads: [{project: p, duration: 1m, pools: x}]\n", 6, "workloads[0].pools", "no node pool 'x'"),
        (SMALL + "workloads: [{project: p, duration: 1m, clusters: x}]\n", 6, "workloads[0].clusters", "there are c"),
        (
            SMALL + "workloads: [{project: p, duration: 1m, preferredClusters: [c, x]}]\n",
            6,
            "workloads[0].preferredClusters",
            "no cluster 'x'",
        ),
        (SMALL + "workloads: [{project: p, duration: 1m, dataLabel: =v}]\n", 6, "workloads[0].dataLabel", "no key"),
        (SMALL.replace("gpus: 8", "labels: [a]"), 3, "clusters[0].nodes[0].labels", "write key=value"),
        (SMALL + "workloads: [{project: p, duration: 1m, preemptible: yes}]\n", 6, "workloads[0].preemptible", "true"),
        (SMALL + "arrivals: [{project: p, load: 1}]\n", 6, "arrivals[0].classes", "no class"),
        (SMALL + "arrivals: [{project: p, classes: [{duration: 1m}]}]\n", 6, "arrivals[0].count", "nothing says"),
        (
            SMALL + "arrivals: [{project: p, count: 1, perHour: 2, classes: [{duration: 1m}]}]\n",
            6,
            "arrivals[0].perHour",
            "one of them",
        ),
        (
            SMALL + "arrivals: [{project: p, count: 1, from: 2h, until: 1h, classes: [{duration: 1m}]}]\n",
            6,
            "arrivals[0].until",
            "before it begins",
        ),
        (SMALL + "arrivals: [{project: p, load: 99, classes: [{duration: 1s}]}]\n", 6, "arrivals[0]", "would come"),
        (SMALL + "outages: [{cluster: c, node: n-2, at: 1h, for: 1h}]\n", 6, "outages[0].node", "no node 'n-2'"),
        (SMALL + "outages: [{cluster: c, node: n-01, at: 1h, for: 1h}]\n", 6, "outages[0].node", "no node"),
        (SMALL + "pace: {sample: 1s}\ndays: 400\n", 6, "pace", "at most 100,000"),
        (SMALL + "pace: [1]\n", 6, "pace", "no mapping"),
        (SMALL + "changes: [{project: p, at: 1h, quotas: {q: {gpus: 1}}}]\n", 6, "changes[0].quotas.q", "no node pool"),
        (SMALL + "pools: [{name: default, gpu: full}]\n", 6, "pools[0].gpu", "allowed are binpack, spread"),
        (SMALL + "pools: [{name: other}]\n", 6, "pools[0].name", "there are default"),
        ("departments: [{name: d}, {name: d}]\n", 1, "departments[1].name", "twice"),
        (
            SMALL.replace("16}", "16, limit: 1}"),
            5,
            "projects[0].quotas.default.limit",
            "1 is below what is deserved, 16",
        ),
        (SMALL.replace("16}", "16, weight: x}"), 5, "projects[0].quotas.default.weight", "a number from"),
        ("projects: [{name: p}, {name: p}]\n", 1, "projects[1].name", "twice"),
        ("clusters: [{name: c, nodes: [{gpus: 17}]}]\n", 1, "clusters[0].nodes[0].gpus", "from 0 to 16"),
        ("clusters: [{name: c, nodes: [{cpu: much}]}]\n", 1, "clusters[0].nodes[0].cpu", "much"),
        ("clusters: [{name: c, nodes: [{}, {}]}]\n", 1, "clusters", "a name of its own"),
        ("clusters: [{name: c, nodes: [{count: 199999, gpus: 16}]}]\n", 1, "clusters", "too large"),
        ("a: [1", 0, "", "no YAML"),
        ("", 0, "", "empty"),
        ("- 1\n", 1, "", "no mapping"),
    ],
)
def test_every_mistake_is_told_with_its_place(tmp_path: Path, text: str, line: int, path: str, said: str) -> None:
    found = problems(tmp_path, text)
    assert any(at == (line or at) and where == path and said in what for at, where, what in found), found


def test_all_mistakes_come_out_at_once(tmp_path: Path) -> None:
    text = SMALL + "days: x\nseed: y\nworkloads: [{project: q}]\n"
    assert [path for _, path, _ in problems(tmp_path, text)] == [
        "days",
        "seed",
        "workloads[0].project",
        "workloads[0].duration",
    ]


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="cannot be read"):
        read_scenario(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(Unusable, match="no UTF-8"):
        read_scenario(tmp_path / "b.yaml")


def test_the_scenario_of_the_guide_is_read(tmp_path: Path) -> None:
    guide = (EXAMPLE.parents[1] / "guides" / "simulate.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    scenario = read_scenario(written(tmp_path, block))
    assert scenario.gpus == 24 * 8
    assert (len(scenario.outages), len(scenario.changes), len(scenario.departments)) == (1, 1, 1)
    assert scenario.pace.checkpoint == 15 * 60 * SECOND
    (pool,) = scenario.pools
    assert (pool.cluster, pool.name, pool.gpu, pool.cpu) == ("north", "default", Strategy.FORESIGHT, Strategy.SPREAD)


def test_whom_nobody_knows_and_what_stands_twice_is_told(tmp_path: Path) -> None:
    text = """
days: 1
clusters:
  - {name: c, nodes: [{name: n, gpus: 8}]}
departments:
  - {name: d}
projects:
  - {name: p, department: nope}
  - {name: q}
workloads:
  - {name: w, project: q, at: 1h, duration: 1h}
  - {name: w, project: q, at: 2h, duration: 1h}
  - {name: w, project: p, at: 2d, duration: 1h}
arrivals:
  - {project: q, load: 101, classes: [{duration: 1h}]}
outages:
  - {cluster: c, node: n, at: 1h, for: 2h}
  - {cluster: c, node: n, at: 2h, for: 1h}
  - {cluster: c, node: n, at: 3h, for: 1h}
"""
    assert problems(tmp_path, text) == [
        (8, "projects[0].department", "there is no department 'nope': there are d"),
        (12, "workloads[1].name", "q has a workload 'w' already: give each a name of its own"),
        (13, "workloads[2].at", "it comes after the end of the simulation: give an earlier time, or more days"),
        (15, "arrivals[0].load", "'101': a number from 0 to 100 is allowed"),
        (18, "outages[1].at", "n is down then already: let it come back before, or make one outage of the two"),
    ]


def test_a_shorter_run_leaves_out_whoever_comes_later(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL + "workloads: [{project: p, at: 12h, duration: 1h}]\n")
    assert len(read_scenario(path).jobs) == 1
    assert not read_scenario(path, days=0.25).jobs
