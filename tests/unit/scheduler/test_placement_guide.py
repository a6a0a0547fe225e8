"""The guides about placement and gangs tell the truth: each workload goes where they say, or waits for that reason.

The whole way is walked: a page's documents through the language and policy, its cluster file through the agent's
reader and encoder, both over the wire into the scheduler's books.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

import muster_language as language
from muster.events.v1 import policy_pb2
from muster_chassis.events import Event, Origin
from muster_chassis.topics import reports
from muster_cluster_agent.adapters.local.cluster_file import ClusterFile, parse
from muster_cluster_agent.adapters.local.nodes import Nodes
from muster_cluster_agent.adapters.records import Records
from muster_cluster_agent.domain.fleet import Fleet as Declared
from muster_cluster_agent.ports import InventoryReport
from muster_kernel.quantities import GPU
from muster_policy_engine.judging.judge import Admitted, Context, judge
from muster_scheduler import stream
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.state import State
from tests.support.fleets import START, workload_id

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
NOW = datetime.fromtimestamp(START // 1_000_000, UTC)


def examples(page: str) -> list[tuple[list[str], str, str]]:
    """The workloads of a page, each with its clusters and what is said to become of it.

    A section that shows clusters stands on those, the others on the page's own.
    """
    found: list[tuple[list[str], str, str]] = []
    page_has: list[str] = []
    for section in re.split(r"^## ", (GUIDES / page).read_text(), flags=re.MULTILINE):
        blocks = re.findall(r"^```yaml\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)
        told = re.findall(r"^```text\n(.*?)\n```", section, flags=re.DOTALL | re.MULTILINE)
        clusters = [each for each in blocks if each.startswith("cluster:")]
        page_has = page_has or clusters
        workloads = [each for each in blocks if each not in clusters]
        found += [(clusters or page_has, *each) for each in zip(workloads, told, strict=True)]
    return found


EXAMPLES = [*examples("placement.md"), *examples("gangs.md")]


def over_the_wire(sent: Message, cluster: str = "here") -> events.Event:
    origin = Origin(reports(cluster).name, 0, 1, b"key", sent.SerializeToString(), ())
    read = type(sent).FromString(sent.SerializeToString())
    event = stream.translate(Event("id", sent.DESCRIPTOR.full_name, "source", "a", 0, NOW, read, origin, None))
    assert event is not None
    return event


def inventory(file: ClusterFile, root: Path) -> Message:
    nodes = Nodes(root, file, lambda _: ())
    (record,) = Records(file.cluster, "agent", 1).of(InventoryReport(Declared(file.profile, nodes.reported(0.0))))
    return record


def admitted(text: str) -> policy_pb2.WorkloadAdmitted:
    (document,) = language.read(text)
    assert not document.violations
    verdict = judge(document.spec, None, None, Context())
    assert isinstance(verdict, Admitted), verdict
    return policy_pb2.WorkloadAdmitted(
        workload_id=workload_id(1),
        generation=1,
        effective_spec=verdict.effective,
        requests=verdict.requests,
        project="team-a",
        name="w",
        submitted_at=Timestamp(seconds=START // 1_000_000),
        node_pools=verdict.node_pools,
        admissible_clusters=verdict.clusters,
        preemptible=verdict.preemptible,
        priority=verdict.priority,
    )


def outcome(state: State) -> str:
    workload = state.world.workloads[workload_id(1)]
    if workload.replicas:
        return "runs on " + ", ".join(sorted({replica.node[1] for replica in workload.replicas.values()}))
    reason = explain(state.world, workload).reason
    assert reason is not None
    return f"waits: {reason.sentence()}"


def test_the_pages_have_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize(("clusters", "text", "told"), EXAMPLES)
def test_what_the_page_says_is_so(clusters: list[str], text: str, told: str, tmp_path: Path) -> None:
    files = [parse(each, where="page") for each in clusters]
    state = State()
    state.begin(START)
    state.apply(events.ProjectChanged(Project("team-a", "", {"default": Quota(100 * GPU)}, 1, home=files[0].cluster)))
    for number, file in enumerate(files):
        state.apply(events.ClusterRegistered(file.cluster))
        state.apply(over_the_wire(inventory(file, tmp_path / str(number)), file.cluster))
    state.apply(over_the_wire(admitted(text)))
    state.propose()
    state.plan()
    state.commit()
    state.check()
    assert outcome(state) == told
