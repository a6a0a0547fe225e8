"""Figures, pictures and the page; and the command around them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.simulation import generators
from muster_scheduler.simulation.command import simulate
from muster_scheduler.simulation.generators import Sort, Stream
from muster_scheduler.simulation.page import page
from muster_scheduler.simulation.plots import nice, pictures
from muster_scheduler.simulation.record import Sample
from muster_scheduler.simulation.report import (
    counted,
    fairness,
    fragmentation,
    headline,
    percentile,
    rows,
    summary,
    words,
)
from muster_scheduler.simulation.running import Simulation
from muster_scheduler.simulation.scenario import DAY, Ask, request_of, units_of
from tests.unit.scheduler.simulation.test_running import job, scenario, tenant

SVG = "{http://www.w3.org/2000/svg}"
SMALL = """
days: 0.1
clusters: [{name: c, nodes: [{name: n, count: 2}]}]
projects: [{name: p, quotas: {default: {gpus: 16}}}, {name: "<q>", quotas: {default: {gpus: 1}}}]
arrivals: [{project: p, count: 40, classes: [{gpus: 2, duration: 10m, spread: 0.5}]}]
"""


def test_percentiles_are_the_nearest_rank() -> None:
    assert [percentile(tuple(range(1, 101)), part) for part in (50, 90, 99)] == [50, 90, 99]
    assert percentile((7,), 50) == 7
    assert percentile((), 99) == 0


def test_fairness_counts_what_is_wanted_and_deserved_only() -> None:
    sample = Sample(0, 8 * GPU, 12 * GPU, 6 * GPU, 8 * GPU, 8 * GPU, 2 * GPU, 1, 1)
    assert fairness(sample) == 0.75
    assert fragmentation(sample) == 0.75
    nothing = Sample(0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert (fairness(nothing), fragmentation(nothing)) == (1.0, 0.0)


def test_whoever_could_never_run_is_owed_nothing_and_nothing_placed_has_no_waits() -> None:
    told = summary(Simulation(scenario(job("toolarge", 0, 600, Ask(replicas=2, gpus=8)))).run())
    assert (told["fairness"], max(told["series"]["wanted"]), told["projects"][0]["wanted"]) == (1.0, 0, 0)
    assert "Waits: -, since nothing was placed." in headline(told)


def test_a_project_that_goes_short_shows_in_fairness() -> None:
    hog = job("hog", 0, 3000, Ask(gpus=8, preemptible=False), project="q")  # nobody may take it back
    told = summary(Simulation(scenario(hog, job("poor", 60, 600), tenants=(tenant(), tenant("q", 8)))).run())
    assert told["fairness"] < 1
    assert [each["project"] for each in told["projects"]] == ["p", "q"]


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (1.2, 2), (2.4, 2.5), (9, 10), (101, 200), (0.03, 0.05)])
def test_axes_end_at_round_numbers(most: float, top: float) -> None:
    assert nice(most) == pytest.approx(top)


def test_pictures_are_drawn_and_names_in_them_are_text() -> None:
    told = summary(Simulation(scenario(job("a", 0, 600), tenants=(tenant(), tenant("<b>&")))).run())
    drawn = pictures(told)
    assert sorted(drawn) == ["fairness.svg", "held.svg", "projects.svg", "queue.svg", "utilisation.svg", "waits.svg"]
    for text in drawn.values():
        root = ET.fromstring(text)  # noqa: S314 - our own text
        assert root.tag == f"{SVG}svg"
    line = ET.fromstring(drawn["utilisation.svg"]).find(f"{SVG}polyline")  # noqa: S314 - as above
    assert line is not None
    assert len(line.attrib["points"].split()) == len(told["series"]["hours"])
    assert "<b>&" not in page(told, drawn)
    assert "&lt;b&gt;&amp;" in page(told, drawn)


def test_the_headline_says_what_happened() -> None:
    text = headline(summary(Simulation(scenario(job("a", 0, 600))).run()))
    assert "8 GPUs (1 node)" in text
    assert "1 workload came: 1 completed" in text
    assert [counted(1.0, "day"), counted(0.5, "day"), counted(12_500, "GPU")] == ["1 day", "0.5 days", "12,500 GPUs"]
    assert words(600) == "10 min"
    assert words(9000) == "2.5 h"


def test_a_project_of_which_nothing_found_room_has_no_waits() -> None:
    jobs = job("never", 0, 600, Ask(gpus=9)), job("soon", 0, 600, project="q")
    told = summary(Simulation(scenario(*jobs, tenants=(tenant(), tenant("q")))).run())
    by_name = {row[0]: row for row in rows(told, 9)}
    assert by_name["p"][-3:] == ("-", "-", "-")
    assert "s" in by_name["q"][-1]


def test_a_stream_brings_the_load_that_is_wanted() -> None:
    sorts = (
        Sort("s", 3, request_of(Ask()), 600 * SECOND, 0.5),
        Sort("l", 1, request_of(Ask(replicas=2, gpus=4)), 7200 * SECOND, 0.5, failing=0.5),
    )
    for stream in (Stream("p", sorts, total=5000, load=0.8), Stream("p", sorts, load=0.8)):
        jobs = generators.jobs((stream,), seed=3, length=DAY, gpus=1000)
        work = sum(units_of(each.request) * each.duration for each in jobs) / (GPU * DAY * 1000)
        assert work == pytest.approx(0.8, abs=0.05 if not stream.total else 0.001)
        assert all(0 <= each.fails_after <= each.duration for each in jobs)
        assert jobs == generators.jobs((stream,), seed=3, length=DAY, gpus=1000)
        assert jobs != generators.jobs((stream,), seed=4, length=DAY, gpus=1000)
    hourly = generators.jobs((Stream("p", sorts, per_hour=50),), seed=1, length=DAY, gpus=1)
    assert 1000 < len(hourly) < 1400
    window = {"begin": 6 * 3600 * SECOND, "end": 12 * 3600 * SECOND}
    for stream in (Stream("p", sorts, per_hour=50, **window), Stream("p", sorts, total=300, load=0.5, **window)):
        between = generators.jobs((stream,), seed=1, length=DAY, gpus=1)
        assert 250 < len(between) < 350
        assert all(window["begin"] <= each.at < window["end"] for each in between)
    assert not generators.jobs((Stream("p", sorts, per_hour=9, begin=2 * DAY),), seed=1, length=DAY, gpus=1)


def test_the_command_prints_json_and_writes_its_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SMALL)
    assert simulate(file, out=tmp_path / "new" / "out", as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["workloads"]["arrived"] == 40
    assert told["gpus"] == 16
    written = json.loads((tmp_path / "new" / "out" / "figures.json").read_text())
    assert written == told
    assert (tmp_path / "new" / "out" / "report.html").read_text().startswith("<!doctype html>")


def test_the_command_tells_people_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SMALL)
    assert simulate(file, out=tmp_path / "out") == 0
    told = capsys.readouterr().out
    assert "40 workloads came" in told
    assert "report.html" in told


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("dayz: 1\n")
    assert simulate(file) == 2
    assert "s.yaml:1: dayz: is not known here" in capsys.readouterr().err
    assert simulate(file, as_json=True) == 2
    told = json.loads(capsys.readouterr().err)
    assert (told["exit"], told["error"]["code"]) == (2, "INVALID_ARGUMENT")
    assert {"path", "message", "file", "line"} == set(told["error"]["violations"][0])
    assert simulate(file, days=-1) == 2
    assert "--days" in capsys.readouterr().err
    assert simulate(tmp_path / "t.csv") == 2
    assert "--nodes" in capsys.readouterr().err


def test_results_that_cannot_be_written_are_told_before_anything_is_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SMALL)
    ran: list[str] = []
    monkeypatch.setattr(Simulation, "run", lambda _: ran.append("ran"))
    assert simulate(file, out=file) == 1
    assert not ran
    assert "cannot be written" in capsys.readouterr().err


def test_figures_that_could_not_be_written_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The disk that is full, or the folder in the way, is only met at the end: the run was not in vain."""
    file = tmp_path / "s.yaml"
    file.write_text(SMALL)
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    assert simulate(file, out=tmp_path / "out") == 1
    told = capsys.readouterr()
    assert "cannot be written" in told.err
    assert "40 workloads came" in told.out
    assert "report.html" not in told.out


@pytest.mark.parametrize("columns", [50, 80, 110])
def test_a_narrow_terminal_gets_fewer_numbers_and_each_of_them_whole(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SMALL)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert simulate(file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    (head,) = (line.split() for line in lines if line.startswith("project"))
    assert head[:3] == (["project", "deserved", "wanted"] if columns == 110 else ["project", "wanted", "held"])
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)


def test_the_command_reads_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,1000,1,1,1000\n")
    (tmp_path / "my_node_list.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n")
    assert simulate(tmp_path / "pods.csv", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["workloads"]["placed"] == 1
