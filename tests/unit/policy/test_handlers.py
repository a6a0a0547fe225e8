"""One verdict a generation; what cannot be judged yet waits and holds up nobody."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster.events.v1.policy_pb2 import WorkloadAdmitted, WorkloadRejected
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import metrics
from muster_policy.adapters.herald import verdict_of
from muster_policy.domain.changes import Given, Reach, Wanted
from muster_policy.domain.standing import UnreadablePolicy
from muster_policy.errors import NotHeardYet
from muster_policy.handlers.judging import ISSUES, VERDICTS, Batch, Judging
from muster_policy.handlers.standing import REVISION, UNREADABLE
from muster_policy.ports import Department, Project, Submission
from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.judging.judge import Admitted, Rejected
from tests.support.policy_books import MemoryBooks, MemoryHerald, MemoryService, no_unit, submission

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def house() -> tuple[Judging, MemoryBooks, MemoryHerald]:
    made = MemoryService()
    return made.judging, made.books, made.herald


async def test_a_submission_is_judged_once_and_answered_twice() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(
        no_unit(), Batch(projects=[Project("team-a", 3, ("p",))], submissions=[submission(1, needs=3)])
    )
    [(key, verdict)] = herald.said
    assert isinstance(verdict, Admitted)
    assert verdict.node_pools == ("p",)
    assert list(books.told) == [key]
    await handlers.on_batch(no_unit(), Batch(submissions=[submission(1, needs=3), submission(1, generation=2)]))
    assert herald.again == [key]
    assert [each[1] for each in books.told] == [1, 2]


async def test_the_scheduler_is_told_in_which_clusters_the_workload_may_run() -> None:
    handlers, _, herald = house()
    anywhere, somewhere, there = (submission(number) for number in (1, 2, 3))
    for each in (somewhere, there):
        each.submitted.spec.clusters.values.extend(["south", "north"])
    there.submitted.asked_cluster = "south"
    given = {each.key: each for each in (anywhere, somewhere, there)}
    await handlers.on_batch(no_unit(), Batch(projects=[Project("team-a", 9, ())], submissions=list(given.values())))
    told = {}
    for key, judged in herald.judged.items():
        message = verdict_of(given[key], judged)
        assert isinstance(message, WorkloadAdmitted)
        told[key[0][-1]] = list(message.admissible_clusters)
    assert told == {"1": [], "2": ["north", "south"], "3": ["south"]}


async def test_it_waits_for_its_project_and_others_do_not_wait_for_it() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(no_unit(), Batch(projects=[Project("team-a", 1, ())]))
    late = submission(1, needs=2, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    await handlers.on_batch(no_unit(), Batch(submissions=[late, submission(2), submission(3, project="new")]))
    assert [key[0][-1] for key, _ in herald.said] == ["2"]
    assert not await handlers.release(no_unit())
    assert not books.told.keys() & {late.key}
    unit = no_unit()
    await handlers.on_batch(unit, Batch(projects=[Project("team-a", 2, ())]))
    assert [key[0][-1] for key, _ in herald.said] == ["2", "1"]
    assert unit.traces[late.key[0]] == late.traceparent
    await handlers.on_batch(no_unit(), Batch(projects=[Project("new", 0, (), gone=True)]))
    assert [key[0][-1] for key, _ in herald.said] == ["2", "1", "3"]
    assert not books.waiting


async def test_an_older_version_changes_nothing_and_release_mends_what_two_instances_missed() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(no_unit(), Batch(projects=[Project("team-a", 5, ("new",)), Project("team-a", 4, ("old",))]))
    assert books.known["team-a"].node_pools == ("new",)
    books.waiting[submission(1).key] = submission(1)
    assert not await handlers.release(no_unit())  # it was not a full batch
    assert len(herald.said) == 1


async def test_a_deleted_workload_waits_no_longer() -> None:
    handlers, _, herald = house()
    waiting = submission(1)
    await handlers.on_batch(no_unit(), Batch(submissions=[waiting]))
    await handlers.on_batch(no_unit(), Batch(deletions=[waiting.key[0]]))
    await handlers.on_batch(no_unit(), Batch(projects=[Project("team-a", 9, ())]))
    assert not herald.said


async def test_services_of_rest_have_a_replica_where_documents_may_go_down_to_none() -> None:
    handlers, _, herald = house()
    given = [submission(number) for number in (1, 2)]
    for each, origin in zip(given, (workload_pb2.ORIGIN_REST, workload_pb2.ORIGIN_YAML), strict=True):
        each.submitted.origin = origin
        each.submitted.spec.kind = options_pb2.KIND_INFERENCE
        each.submitted.spec.ports.add(container=80)
    await handlers.on_batch(no_unit(), Batch(projects=[Project("team-a", 9, ())], submissions=given))
    scales = {key: verdict.effective.min_scale for key, verdict in herald.said if isinstance(verdict, Admitted)}
    assert scales == {given[0].key: 1, given[1].key: 0}


async def test_a_question_is_judged_like_a_submission_and_leaves_nothing() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(no_unit(), Batch(projects=[Project("team-a", 3, ("p",))]))
    good, bad = await handlers.consider(no_unit(), [submission(1, needs=3), submission(2, kind=0, needs=3)])
    assert isinstance(good.verdict, Admitted)
    assert (good.verdict.node_pools, bool(good.digest)) == (("p",), True)
    assert isinstance(bad.verdict, Rejected)
    assert not herald.said
    assert not books.told
    assert not books.waiting


@pytest.mark.parametrize(("project", "needs"), [("team-a", 4), ("nobody", 1)])
async def test_a_question_about_a_project_that_is_not_heard_of_yet_is_for_later(project: str, needs: int) -> None:
    handlers, books, _ = house()
    await handlers.on_batch(no_unit(), Batch(projects=[Project("team-a", 3, ("p",))]))
    with pytest.raises(NotHeardYet, match=project):
        await handlers.consider(no_unit(), [submission(1, project=project, needs=needs)])
    assert not books.waiting


POLICY = """\
kind: Policy
name: house
workload: training
scope: {scope}
policy: {{defaults: {{backoffLimit: {limit}}}, rules: {{compute: {{gpuDevicesRequest: {{max: 4}}}}}}}}
"""


async def write(at: MemoryService, text: str) -> None:
    [document] = read_policies(text)
    wanted = Wanted([Given(document, "f:1")], "anna", NOW, [f"id-{at.store.number}"], Reach(tenant=True))
    await at.writing.apply(no_unit(), wanted, "grpc", "")


async def test_a_submission_is_judged_by_the_policies_of_its_branch() -> None:
    at = MemoryService()
    projects = [Project("team-a", 9, (), department="d", home_cluster="east"), Project("team-b", 9, ())]
    await at.judging.on_batch(no_unit(), Batch([Department("d", 1)], projects))
    await write(at, POLICY.format(scope="{cluster: east}", limit=1))
    given = [submission(1), submission(2, project="team-b"), submission(3, gpu_devices_request=8)]
    given[1].submitted.asked_cluster, given[2].submitted.asked_cluster = "west", "east"
    before = [metrics.value(VERDICTS, outcome=each) for each in ("admitted", "rejected")]
    refused = metrics.value(ISSUES, rule="max")
    await at.judging.on_batch(no_unit(), Batch(submissions=given))
    after = [metrics.value(VERDICTS, outcome=each) for each in ("admitted", "rejected")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [2, 1]
    assert metrics.value(ISSUES, rule="max") == refused + 1
    assert metrics.value(REVISION) == 1
    first, second, third = (at.herald.judged[each.key] for each in given)
    assert isinstance(first.verdict, Admitted)
    assert isinstance(second.verdict, Admitted)
    assert (first.verdict.effective.backoff_limit, second.verdict.effective.backoff_limit) == (1, 6)
    assert (first.revision, third.revision) == (1, 1)
    message = verdict_of(given[2], third)
    assert isinstance(message, WorkloadRejected)
    [issue] = message.issues
    assert (issue.path, issue.rule, issue.policy, issue.scope, issue.version) == (
        ("compute.gpuDevicesRequest", "max", "house", "cluster", 1)
    )
    assert message.policy_revision == 1
    told = verdict_of(given[0], first)
    assert isinstance(told, WorkloadAdmitted)
    source = next(each for each in told.sources if each.path == "backoffLimit")
    assert (source.layer, source.policy, source.version) == ("policy of the cluster", "house", 1)


async def test_a_later_write_is_used_by_the_next_verdict() -> None:
    at = MemoryService()
    await at.judging.on_batch(no_unit(), Batch(projects=[Project("team-a", 9, ())]))
    for limit in (1, 2, 3):
        await write(at, POLICY.format(scope="tenant", limit=limit))
        each = submission(limit)
        await at.judging.on_batch(no_unit(), Batch(submissions=[each]))
        verdict = at.herald.judged[each.key].verdict
        assert isinstance(verdict, Admitted)
        assert verdict.effective.backoff_limit == limit


async def test_what_a_newer_release_wrote_keeps_its_branch_waiting_and_no_other() -> None:
    at = MemoryService()
    await at.judging.on_batch(no_unit(), Batch([], [Project("team-a", 9, ()), Project("team-b", 9, ())]))
    await write(at, POLICY.format(scope="{project: team-a}", limit=1))
    [row] = at.store.rows.values()
    at.store.rows[row.id] = replace(row, document=row.document.replace("max", "atMost"), revision=2, version=2)
    at.store.number = 2
    held, other = submission(1), submission(2, project="team-b")
    await at.judging.on_batch(no_unit(), Batch(submissions=[held, other]))
    assert [key for key, _ in at.herald.said] == [other.key]
    assert list(at.books.waiting) == [held.key]
    assert metrics.value(UNREADABLE) == 1
    with pytest.raises(UnreadablePolicy, match="atMost"):
        await at.judging.consider(no_unit(), [held])
    assert not await at.judging.release(no_unit())  # it goes on waiting
    at.store.rows[row.id] = replace(row, revision=3, version=3)
    at.store.number = 3
    await at.judging.release(no_unit())
    assert [key for key, _ in at.herald.said] == [other.key, held.key]
    assert metrics.value(UNREADABLE) == 0


async def test_work_that_asks_for_no_cluster_does_not_run_where_a_cluster_objects() -> None:
    at = MemoryService()
    projects = [Project("team-a", 9, (), home_cluster="east")]
    await at.judging.on_batch(no_unit(), Batch(projects=projects))
    east = POLICY.format(scope="{cluster: east}", limit=1)
    west = "kind: Policy\nworkload: training\nscope: {cluster: west}\npolicy: {defaults: {backoffLimit: 4}}\n"
    await write(at, east)
    await write(at, west)
    large, small, asked, named = (
        submission(number, gpu_devices_request=devices) for number, devices in ((1, 8), (2, 1), (3, 8), (4, 8))
    )
    asked.submitted.asked_cluster = "east"
    named.submitted.spec.clusters.values.extend(["east"])
    await at.judging.on_batch(no_unit(), Batch(submissions=[large, small, asked, named]))

    def excluded(each: Submission) -> list[tuple[str, list[tuple[str, str]]]]:
        message = verdict_of(each, at.herald.judged[each.key])
        assert isinstance(message, WorkloadAdmitted)
        return [(one.cluster, [(issue.path, issue.rule) for issue in one.issues]) for one in message.excluded_clusters]

    # Its home gives the defaults, so that the other cluster's would make another spec.
    assert excluded(small) == [("west", [("clusters", "cluster")])]
    assert excluded(large) == [("east", [("compute.gpuDevicesRequest", "max")]), ("west", [("clusters", "cluster")])]
    verdict = at.herald.judged[large.key].verdict
    assert any("will not run in cluster east" in each for each in verdict.warnings)
    for each in (asked, named):
        refused = at.herald.judged[each.key].verdict
        assert isinstance(refused, Rejected)
        assert [(one.path, one.rule) for one in refused.issues] == [("compute.gpuDevicesRequest", "max")]
