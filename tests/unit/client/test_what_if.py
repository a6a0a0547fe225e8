"""`muster what-if`: an answer that reads like one, and exit codes for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.rpc import code_pb2

from muster.api.v1 import explain_pb2
from muster.events.v1 import scheduler_pb2
from muster.policy.v1.policy_pb2 import ComplianceIssue
from muster.workload.v1 import workload_pb2
from muster_kernel.quantities import GPU
from tests.support.plane_world import Failure, World
from tests.unit.client.conftest import Command

DOCUMENT = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {name: bert}
spec:
  image: {value: python}
  gpuDevices: {value: 8}
"""


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "bert.yaml"
    path.write_text(DOCUMENT)
    return str(path)


def prospect(outlook: int, **more: object) -> explain_pb2.Prospect:
    return explain_pb2.Prospect(name="bert", project="team-a", outlook=outlook, **more)  # type: ignore[arg-type]


def test_what_would_start_says_where(muster: Command, world: World, document: str) -> None:
    nodes = [explain_pb2.ProspectNode(node=f"n{n}", replicas=1 + n % 2, gpu_charge=8 * GPU) for n in range(8)]
    where = {"cluster": "north", "node_pool": "h100"}
    world.prospects.prospects.append(prospect(explain_pb2.OUTLOOK_STARTS, nodes=nodes, **where))
    ran = muster("what-if", "-f", document)
    assert ran.out == (
        "bert in team-a would start at once: 64 GPUs in node pool h100 of north, on n0, n1 (2 replicas), n2, "
        "n3 (2 replicas), n4, n5 (2 replicas), and 2 more nodes.\n"
    )
    assert ran.code == 0
    (asked,) = [request for name, request in world.calls if name == "WhatIf"]
    assert (asked.drafts[0].project, asked.drafts[0].yaml.strip()) == ("team-a", DOCUMENT.strip())


def test_what_would_displace_others_names_them(muster: Command, world: World, document: str) -> None:
    node = explain_pb2.ProspectNode(node="n1", replicas=1, gpu_charge=GPU)
    world.prospects.CopyFrom(
        explain_pb2.WhatIfResponse(
            prospects=[
                prospect(explain_pb2.OUTLOOK_STARTS_AFTER, nodes=[node], cluster="north", node_pool="h100", waits_for=1)
            ],
            displaced=[
                explain_pb2.Displaced(name="old", project="team-a", gpu_charge=GPU // 2, by=1),
                explain_pb2.Displaced(moves=True),
            ],
            unfinished=True,
        )
    )
    assert muster("what-if", "-f", document).out.splitlines() == [
        "bert in team-a would start once 1 workload has made room: 1 GPU in node pool h100 of north, on n1.",
        "2 workloads would give their places up:",
        "  old of team-a (0.5 GPU), for bert",
        "  a workload that you may not see, for another workload that waits, and move",
        "The scheduler did not look at everything within one question: what waits here might start.",
    ]


def test_what_if_tells_what_an_elastic_gang_would_do_without(muster: Command, world: World, document: str) -> None:
    shrinks = explain_pb2.Displaced(
        name="el", project="team-b", gpu_charge=6 * GPU, by=1, replicas_given_up=6, replicas=8
    )
    world.prospects.CopyFrom(
        explain_pb2.WhatIfResponse(
            prospects=[prospect(explain_pb2.OUTLOOK_STARTS_AFTER, cluster="north", node_pool="h100", waits_for=1)],
            displaced=[shrinks],
        )
    )
    assert muster("what-if", "-f", document).out.splitlines()[1:] == [
        "1 workload would go on with fewer replicas (6 GPUs):",
        "  el of team-b gives up 6 of its 8 replicas (6 GPUs), for bert",
    ]
    leaves = explain_pb2.Displaced(name="old", project="team-a", gpu_charge=GPU, by=1)
    world.prospects.CopyFrom(
        explain_pb2.WhatIfResponse(
            prospects=[prospect(explain_pb2.OUTLOOK_STARTS_AFTER, cluster="north", node_pool="h100", waits_for=2)],
            displaced=[leaves, shrinks],
        )
    )
    told = muster("what-if", "-f", document).out.splitlines()
    assert told[1] == "2 workloads would give their places or part of them up (7 GPUs):"


def test_what_would_wait_says_why_and_what_would_help(muster: Command, world: World, document: str) -> None:
    explained = scheduler_pb2.Explanation(
        reason=workload_pb2.Reason(code="NoCapacity", message="needs 8 GPUs; 2 are free"), unblockers=["a ended"]
    )
    world.prospects.prospects.append(prospect(explain_pb2.OUTLOOK_WAITS, explanation=explained))
    assert muster("what-if", "-f", document).out.splitlines() == [
        "bert in team-a would wait.",
        "  Blocked by   needs 8 GPUs; 2 are free",
        "",
        "  It would start now if    a ended.",
    ]


def test_what_policy_would_refuse_is_a_failure_at_its_line(muster: Command, world: World, document: str) -> None:
    issue = ComplianceIssue(path="compute.gpuDevicesRequest", details="8 is above 4")
    world.prospects.prospects.append(prospect(explain_pb2.OUTLOOK_REFUSED, issues=[issue]))
    ran = muster("what-if", "-f", document)
    assert ran.code == 1
    assert ran.out.startswith("bert in team-a would be refused by policy:\n  ")
    assert "8 is above 4" in ran.out


def test_of_several_documents_the_one_that_is_refused_is_named(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(f"{DOCUMENT}---\n{DOCUMENT}")
    missing = Failure(code_pb2.NOT_FOUND, "no project has the namespace 'runai-vision'")
    world.fail("WhatIf", missing)
    together = muster("what-if", "-f", str(path))
    assert together.err == "muster: no project has the namespace 'runai-vision'\n"
    assert [len(asked.drafts) for asked in world.asked("WhatIf")] == [2, 1, 1]
    world.fail("WhatIf", missing, times=2)
    alone = muster("what-if", "-f", str(path))
    assert (alone.code, together.code) == (3, 3)
    assert alone.err.splitlines()[0] == f"{path}:1:1: no project has the namespace 'runai-vision'"


def test_a_name_that_is_taken_is_refused_at_its_document_as_submit_refuses_it(
    muster: Command, world: World, document: str
) -> None:
    world.fail("WhatIf", Failure(code_pb2.ALREADY_EXISTS, "name 'bert' is taken in project team-a"), times=2)
    ran = muster("what-if", "-f", document)
    assert ran.code == 2
    assert ran.err.splitlines()[0] == f"{document}:1:1: name 'bert' is taken in project team-a"


def test_json_is_the_answer_itself(muster: Command, world: World, document: str) -> None:
    world.prospects.prospects.append(prospect(explain_pb2.OUTLOOK_STARTS, cluster="north"))
    told = json.loads(muster("what-if", "-f", document, "--json").out)
    assert told["prospects"][0]["cluster"] == "north"


def test_a_file_with_an_error_asks_nothing(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(DOCUMENT.replace("gpuDevices", "gpuDevicez"))
    ran = muster("what-if", "-f", str(path))
    assert ran.code == 2
    assert "nothing was asked" in ran.err
    assert not [name for name, _ in world.calls if name == "WhatIf"]
