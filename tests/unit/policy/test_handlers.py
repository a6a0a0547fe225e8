"""One verdict a generation; what cannot be judged yet waits and holds up nobody."""

from __future__ import annotations

import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_policy.adapters.herald import admitted
from muster_policy.domain.bench import Bench
from muster_policy_engine.judging.judge import Admitted, Rejected
from muster_policy_engine.policy import NO_POLICY
from muster_policy.errors import NotHeardYet
from muster_policy.handlers import Batch, Handlers
from muster_policy.ports import Project
from tests.support.policy_books import MemoryBooks, MemoryHerald, no_unit, submission


def house() -> tuple[Handlers, MemoryBooks, MemoryHerald]:
    books, herald = MemoryBooks(), MemoryHerald()
    return Handlers(Bench(), books, herald), books, herald


async def test_a_submission_is_judged_once_and_answered_twice() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 3, ("p",))], [submission(1, needs=3)]))
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
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 9, ())], list(given.values())))
    told = {
        key[0][-1]: list(admitted(given[key], verdict, NO_POLICY, "").admissible_clusters)
        for key, verdict in herald.said
        if isinstance(verdict, Admitted)
    }
    assert told == {"1": [], "2": ["north", "south"], "3": ["south"]}


async def test_it_waits_for_its_project_and_others_do_not_wait_for_it() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 1, ())]))
    late = submission(1, needs=2, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    await handlers.on_batch(no_unit(), Batch(submissions=[late, submission(2), submission(3, project="new")]))
    assert [key[0][-1] for key, _ in herald.said] == ["2"]
    assert await handlers.release(no_unit()) == 0
    unit = no_unit()
    await handlers.on_batch(unit, Batch([Project("team-a", 2, ())]))
    assert [key[0][-1] for key, _ in herald.said] == ["2", "1"]
    assert unit.traces[late.key[0]] == late.traceparent
    await handlers.on_batch(no_unit(), Batch([Project("new", 0, (), gone=True)]))
    assert [key[0][-1] for key, _ in herald.said] == ["2", "1", "3"]
    assert not books.waiting


async def test_an_older_version_changes_nothing_and_release_mends_what_two_instances_missed() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 5, ("new",)), Project("team-a", 4, ("old",))]))
    assert books.known["team-a"].node_pools == ("new",)
    books.waiting[submission(1).key] = submission(1)
    assert await handlers.release(no_unit()) == 1
    assert len(herald.said) == 1


async def test_a_deleted_workload_waits_no_longer() -> None:
    handlers, _, herald = house()
    waiting = submission(1)
    await handlers.on_batch(no_unit(), Batch(submissions=[waiting]))
    await handlers.on_batch(no_unit(), Batch(deletions=[waiting.key[0]]))
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 9, ())]))
    assert not herald.said


async def test_services_of_rest_have_a_replica_where_documents_may_go_down_to_none() -> None:
    handlers, _, herald = house()
    given = [submission(number) for number in (1, 2)]
    for each, origin in zip(given, (workload_pb2.ORIGIN_REST, workload_pb2.ORIGIN_YAML), strict=True):
        each.submitted.origin = origin
        each.submitted.spec.kind = options_pb2.KIND_INFERENCE
        each.submitted.spec.ports.add(container=80)
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 9, ())], given))
    scales = {key: verdict.effective.min_scale for key, verdict in herald.said if isinstance(verdict, Admitted)}
    assert scales == {given[0].key: 1, given[1].key: 0}


async def test_a_question_is_judged_like_a_submission_and_leaves_nothing() -> None:
    handlers, books, herald = house()
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 3, ("p",))]))
    [(good, digest), (bad, _)] = await handlers.consider(
        no_unit(), [submission(1, needs=3), submission(2, kind=0, needs=3)]
    )
    assert isinstance(good, Admitted)
    assert (good.node_pools, bool(digest)) == (("p",), True)
    assert isinstance(bad, Rejected)
    assert not herald.said
    assert not books.told
    assert not books.waiting


@pytest.mark.parametrize(("project", "needs"), [("team-a", 4), ("nobody", 1)])
async def test_a_question_about_a_project_that_is_not_heard_of_yet_is_for_later(project: str, needs: int) -> None:
    handlers, books, _ = house()
    await handlers.on_batch(no_unit(), Batch([Project("team-a", 3, ("p",))]))
    with pytest.raises(NotHeardYet, match=project):
        await handlers.consider(no_unit(), [submission(1, project=project, needs=needs)])
    assert not books.waiting
