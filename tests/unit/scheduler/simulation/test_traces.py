"""Traces as scenarios: pods, nodes, models as node pools, and what is wrong with a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.simulation.problems import Unusable
from muster_scheduler.simulation.running import Simulation
from muster_scheduler.simulation.traces import TRACE, read_jobs, read_nodes, read_trace

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,786432,8,V100M32\nn2,64000,1024,0,\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
PODS = (
    HEAD + "a,12000,1024,1,460,,LS,Running,1000,1600,1000\n"
    "b,1000,1024,2,1000,P100|T4,LS,Running,1060,1660,1060\n"
    "c,1000,1024,0,0,,BE,Running,1120,1180,1120\n"
)
MODELS = (("P100", "P100"), ("V100M32", "V100M32"))


def test_a_trace_is_run_on_its_nodes() -> None:
    scenario = read_trace(Path("t.csv"), PODS, Path("n.csv"), NODES)
    assert (scenario.gpus, len(scenario.jobs)) == (10, 3)
    assert [job.at // SECOND for job in scenario.jobs] == [0, 60, 120]
    assert scenario.pace.length == (660 + 10 + 5 + 3 * 5) * SECOND  # all that the last one needs to start and end
    assert dict(scenario.tenants[0].quotas)["V100M32"].deserved == 8 * GPU
    figures = Simulation(scenario).run()
    assert [each.project for each in figures.projects] == [TRACE]
    assert (figures.projects[0].arrived, figures.projects[0].unplaced) == (3, 0)
    assert read_trace(Path("t.csv"), PODS, Path("n.csv"), NODES, days=0.5).pace.length == 43_200 * SECOND


@pytest.mark.parametrize("seconds", [1, 100, 999_999, 29_999_999])
def test_a_trace_ends_when_its_last_pod_has_ended(seconds: int) -> None:
    scenario = read_trace(Path("t.csv"), f"{HEAD}a,1,1,1,1000,,,,7,{7 + seconds},7\n", Path("n.csv"), NODES)
    assert Simulation(scenario).run().projects[0].completed == 1


def test_models_are_node_pools() -> None:
    a, b, c = read_jobs("t.csv", PODS, MODELS, None)
    assert a.request.pools == ("P100", "V100M32")
    assert (a.request.roles[0].shape.kind, a.request.roles[0].shape.milli) == (Kind.PORTION, 460)
    assert b.request.pools == ("P100",)
    assert (b.request.roles[0].shape.kind, b.request.roles[0].shape.devices) == (Kind.WHOLE, 2)
    assert c.request.roles[0].shape.kind is Kind.NONE


def test_columns_that_a_trace_does_not_have_mean_what_is_usual() -> None:
    (job,) = read_jobs("t.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,1000,1,1,1000\n", MODELS, None)
    assert job.request.pools == ("P100", "V100M32")
    assert (job.at, job.duration) == (0, 3600 * SECOND)


def test_a_pod_whose_end_is_not_known_runs_an_hour_from_its_beginning_and_one_without_a_name_has_that_of_its_line() -> (
    None
):
    (job,) = read_jobs("t.csv", HEAD + ",1000,1,1,1000,,LS,Running,90000,,\n", MODELS, None)
    assert (job.name, job.at, job.duration) == ("workload-2", 90_000 * SECOND, 3600 * SECOND)


def test_equal_pods_share_one_request() -> None:
    a, b = read_jobs("t.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,1,1,1,9\ny,1,1,1,9\n", MODELS, None)
    assert a.request is b.request


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("", 1, "", "no column"),
        ("name\nx\n", 1, "", "no column cpu_milli"),
        (HEAD, 0, "", "no workload"),
        (HEAD + "a,b,1,1,1,,,,,,\n", 2, "cpu_milli", "whole number"),
        (HEAD + "a,1,1,1,1001,,,,,,\n", 2, "gpu_milli", "0 to 1000"),
        (HEAD + "\na,1\n", 3, "", "2 values"),
        (HEAD + "a,1,1,1,9,,,,100,0,\n", 2, "deletion_time", "0 is before the creation_time 100"),
        (HEAD + "a,1,1,1,9,,,,1,2,\n" * 2, 3, "name", "'a' stands in line 2 already"),
        ("name,project,at,duration\nx,p,0,60\nx,p,9,60\n", 3, "name", "'x' stands in line 2 already"),
        ("name,project,at,duration\nx,q,0,60\n", 2, "project", "no project 'q'"),
        ("name,project,at,duration\nx\x1b[31m,p,0,60\n", 2, "name", "control characters"),
        ("name,project,at,duration\nx,p,soon,60\n", 2, "at", "no time"),
        ("name,project,at,duration,gpus\nx,p,0,60,1.5\n", 2, "gpus", "portion"),
        ("name,project,at,duration\nx,p,0,-60\n", 2, "duration", "no time"),
        ("name,project,at,duration,pool\nx,p,0,60,T4\n", 2, "pool", "no node pool 'T4': there are P100, V100M32"),
    ],
)
def test_a_line_that_cannot_be_used_is_told(text: str, line: int, column: str, said: str) -> None:
    with pytest.raises(Unusable) as caught:
        read_jobs("t.csv", text, MODELS, {"p"})
    (first, *_) = caught.value.problems
    assert (first.line, first.path) == (line, column)
    assert said in first.text


def test_nodes_that_cannot_be_used_are_told() -> None:
    with pytest.raises(Unusable, match="no column"):
        read_nodes("n.csv", "sn\nx\n")
    with pytest.raises(Unusable, match=r"n\.csv:2: gpu: '17'"):
        read_nodes("n.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,17,P100\n")
    with pytest.raises(Unusable, match=r"n\.csv:3: sn: node 'n0' stands there twice"):
        read_nodes("n.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,1,P100\nn0,1,1,1,P100\n")
    with pytest.raises(Unusable, match="has no node"):
        read_nodes("n.csv", "sn,cpu_milli,memory_mib,gpu,model\n")
