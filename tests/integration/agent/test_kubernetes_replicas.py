"""The agent's loop on the Kubernetes back end: pods from their creation to the last object that is taken away."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.adapters.kubernetes import backend as backend_module
from muster_cluster_agent.adapters.kubernetes import cache as cache_module
from muster_cluster_agent.adapters.kubernetes import recorder as recorder_module
from muster_cluster_agent.domain.fleet import NodeState
from muster_cluster_agent.domain.kubernetes import lines, marks, substates
from muster_cluster_agent.domain.model import Failure, RunKey, State, Status
from muster_cluster_agent.errors import BackendError
from muster_cluster_agent.ports import StatusReport
from tests.support.agent_loops import Told
from tests.support.fake_api_server import Fault
from tests.support.fake_kubelet import now
from tests.support.kubernetes_backends import FILE, scene
from tests.support.kubernetes_loops import Loop, assignment, counted_rounds, loop, release
from tests.support.waiting import eventually, until


async def test_a_training_lives_and_leaves_nothing() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sh -c 'echo hello; exit 0'"))
        await here.told_last("SUCCEEDED", "GONE")
        (key,) = here.pods()
        await here.until(lambda: "finalizers" not in here.pods()[key]["metadata"])  # it stays for its log alone
        name = here.pods()[key]["metadata"]["name"]
        assert b"".join([piece async for piece in here.backend.read_log(name)]) == b"hello\n"
        here.agent.take(release())
        await here.nothing_left()
        assert here.scene.kubelets.starts == {name: 1}


async def test_a_run_that_is_released_is_stopped_with_its_grace() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        here.agent.take(release())
        await here.nothing_left()
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert (gone.state, gone.failure, gone.evidence) == (State.GONE, Failure.OURS, "containers-terminated")


async def test_an_end_outlives_the_agent_and_its_pod() -> None:
    async with scene() as made:
        async with loop(made) as here:
            here.agent.take(assignment("sh -c 'exit 3'"))
            await here.told_last("FAILED", "GONE")
            (key,) = here.pods()
        made.server.remove("pods", key)  # somebody deletes the pod while no agent watches
        async with loop(made) as here:
            here.agent.take(assignment("sh -c 'exit 3'"))
            await here.told_last("FAILED", "GONE")
            assert list(here.scene.kubelets.starts.values()) == [1]
            here.agent.take(release())
            await here.nothing_left()


async def test_what_is_removed_is_written_down_once_for_many_and_told_of_no_more() -> None:
    async with scene() as made:
        async with loop(made) as here:
            here.agent.take(assignment("sleep 1000", count=4))
            await here.until(lambda: len(made.kubelets.starts) == 4)
            await here.told_last("READY")
            before = made.server.calls.get("PATCH", 0)
            here.agent.take(assignment("sleep 1000", attempt=1))  # releases the first attempt
            await here.until(lambda: len(made.kubelets.starts) == 5)
            await here.until(lambda: [*_lines(here)] == ["{}"] * 4)
            # Of four replicas: their finalizers; of all of them together: why they stop, ends, and removals.
            assert made.server.calls["PATCH"] - before <= 4 + 4
        async with loop(made) as here:
            here.agent.take(assignment("sleep 1000", attempt=1))
            await here.told_last("READY")
            assert {each.status.attempt for each in here.told.of(StatusReport) if isinstance(each, StatusReport)} == {1}


async def test_of_a_released_run_no_removal_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "REMOVED_SECONDS", 0.0)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000", count=2))
        await here.until(lambda: here.told.states(1).count("READY") == 2)
        close_runs = here.backend.close_runs

        async def later(workload_id: str, run: RunKey) -> None:
            raise BackendError(f"other work comes before {workload_id} {run}")

        monkeypatch.setattr(here.backend, "close_runs", later)
        here.agent.take(release())
        await here.until(lambda: not here.pods() and not here.backend._cache.all())
        assert await here.backend._recorder.write()
        assert len(_lines(here)) == 2
        assert "{}" not in _lines(here)
        monkeypatch.setattr(here.backend, "close_runs", close_runs)
        await here.nothing_left()


def _lines(here: Loop) -> list[str]:
    """How the replicas of the first attempt ended, by its root."""
    roots = here.server.objects["configmaps"].values()
    (first,) = [root for root in roots if root["metadata"]["name"].endswith("-g1-a0")]
    return [line for name, line in first.get("data", {}).items() if not lines.stopped_name(name)]


@pytest.mark.parametrize("by_release", [True, False])
async def test_an_agent_that_follows_knows_why_a_pod_was_stopped(*, by_release: bool) -> None:
    # A newer assignment that does not name the run ends it, too.
    stopped = release() if by_release else assignment("true", node="n-1", attempt=1)
    async with scene() as made:
        async with loop(made) as here:
            here.agent.take(assignment("sleep 1000"))
            await here.told_last("READY")
            (key,) = here.pods()
            made.kubelets.held.add("n-0")
            here.agent.take(stopped)
            await here.until(lambda: "deletionTimestamp" in here.pods()[key]["metadata"])
            written = [root.get("data") for root in made.server.objects["configmaps"].values()]
            assert any(written) is not by_release  # what stands on the bus is written nowhere else
        made.kubelets.held.clear()
        made.server.change("pods", key, lambda _: None)  # it ends while no agent watches
        await until(lambda: made.server.objects["pods"][key]["status"]["phase"] == "Failed")
        late: list[str] = []

        def fault(asked: str, path: str) -> Fault | None:
            """The roots are listed long after the pods."""
            if asked == "GET" and path.endswith("/configmaps") and len(late) < 2:
                late.append(path)
                return Fault(503, "ServiceUnavailable", "try later")
            return None

        made.server.fault = fault
        async with loop(made, caught_up=False) as here:
            here.agent.take(stopped)
            here.agent.caught_up()

            def gone(told: Told = here.told) -> list[Status]:
                found = [each.status for each in told.of(StatusReport) if isinstance(each, StatusReport)]
                return [each for each in found if each.state is State.GONE and each.name and each.attempt == 0]

            await here.until(lambda: bool(gone()))
            (end,) = gone()
            expected = "stopped: deleted" if by_release else "Error; stopped: replaced"
            assert (end.failure, end.message) == (Failure.OURS, expected)
            here.agent.take(release(attempt=1))
            await here.nothing_left()


async def test_a_removed_pod_that_its_kubelet_leaves_is_deleted_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted_rounds(monkeypatch)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()
        made.server.change("pods", key, lambda pod: pod["metadata"]["finalizers"].append("example.com/held"))
        here.agent.take(release())
        await here.until(lambda: here.pods()[key]["metadata"]["finalizers"] == ["example.com/held"])
        await here.until(lambda: here.pods()[key]["metadata"]["deletionGracePeriodSeconds"] == 0)
        deletions = made.server.calls["DELETE"]
        await here.rounds(passed)
        assert made.server.calls["DELETE"] == deletions


async def test_a_root_that_takes_no_line_lets_no_pod_run_for_ever() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()

        def fault(asked: str, path: str) -> Fault | None:
            refused = asked == "PATCH" and "/configmaps/" in path
            return Fault(403, "Forbidden", "exceeded quota") if refused else None

        made.server.fault = fault
        here.agent.take(release())
        await here.until(lambda: "deletionTimestamp" in here.pods()[key]["metadata"])
        made.server.fault = lambda asked, path: None
        await here.nothing_left()
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert gone.failure is Failure.OURS


async def test_the_replicas_of_a_node_that_is_gone_are_written_off_in_one_call() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000", count=6))
        await here.until(lambda: here.told.states(1).count("READY") == 6)
        made.kubelets.held.add("n-0")
        lines_written: list[str] = []

        def fault(asked: str, path: str) -> Fault | None:
            if asked == "PATCH" and "/configmaps/" in path:
                lines_written.append(path)
            return None

        made.server.fault = fault
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        made.server.change("nodes", "n-0", lambda node: node["spec"].update(taints=[taint]))
        await here.until(lambda: here.told.states(1).count("GONE") == 6)
        assert len(lines_written) == 1


async def test_a_pod_that_others_delete_is_no_end_of_its_own() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()

        def kill(pod: Any) -> None:
            pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}

        made.server.change("pods", key, kill)
        await here.told_last("READY", "FAILED", "GONE")
        failed = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-2]
        assert (failed.failure, failed.message) == (Failure.INFRASTRUCTURE, "its pod was deleted by others")
        await here.until(lambda: not here.pods())


async def test_a_force_deleted_pod_is_held_until_its_end_is_known() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()
        made.kubelets.held.add("n-0")

        def kill(pod: Any) -> None:
            pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}

        made.server.change("pods", key, kill)
        here.agent.take(release())
        assert key in here.pods()
        assert "GONE" not in here.told.states(1)
        made.kubelets.held.clear()
        made.server.change("pods", key, lambda _: None)
        await here.nothing_left()
        assert here.told.states(1)[-1] == "GONE"


async def test_an_image_that_cannot_be_named_ends_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    async with scene() as made, loop(made) as here:
        key = await here.hinder("InvalidImageName", "no such name")
        await here.until(lambda: "FAILED" in here.told.states(1))
        made.server.change("pods", key, lambda pod: pod["status"].update({"phase": "Failed"}))
        await here.until(lambda: "GONE" in here.told.states(1))
        failed = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert (failed.failure, failed.message) == (Failure.START, "InvalidImageName: no such name")


async def test_a_silent_node_loses_its_replicas_and_gives_them_back() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        made.kubelets.set_ready("n-0", ready=False)
        await here.told_last("READY", "LOST")
        made.kubelets.set_ready("n-0", ready=True)
        await here.told_last("READY", "LOST", "READY")
        assert list(made.kubelets.starts.values()) == [1]


async def test_a_node_that_is_silent_for_long_is_written_off() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        made.kubelets.held.add("n-0")
        made.kubelets.set_ready("n-0", ready=False, at="2026-01-01T00:00:00Z")
        await here.until(lambda: "GONE" in here.told.states(1))
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert (gone.evidence, gone.failure) == ("node-gone", Failure.INFRASTRUCTURE)
        await here.until(lambda: not here.pods())


async def test_a_reboot_is_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(cache_module, "BOOT_SETTLES", 0.0)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        await here.until(lambda: bool(here.backend._cache._boots))
        made.kubelets.held.add("n-0")
        made.server.change("nodes", "n-0", lambda node: node["status"]["nodeInfo"].update({"bootID": "another"}))
        await here.until(lambda: "GONE" in here.told.states(1))
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert gone.evidence == "boot-id-changed"


@pytest.mark.parametrize("verb", ["POST", "PATCH", "DELETE"])
@pytest.mark.parametrize("after", [False, True])
async def test_answers_that_are_lost_double_and_lose_nothing(verb: str, *, after: bool) -> None:
    async with scene() as made:
        turns: dict[tuple[str, str], int] = {}

        def fault(asked: str, path: str) -> Fault | None:
            if asked != verb:
                return None
            turns[asked, path] = turns.get((asked, path), 0) + 1
            return Fault(503, "ServiceUnavailable", "try later", after=after) if turns[asked, path] % 2 else None

        made.server.fault = fault
        async with loop(made) as here:
            here.agent.take(assignment("sleep 1000"))
            await here.told_last("READY")
            here.agent.take(release())
            await here.nothing_left()
            assert list(made.kubelets.starts.values()) == [1]
            assert here.told.states(1)[-1] == "GONE"


async def test_a_newer_attempt_waits_until_the_older_one_is_gone() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (first,) = here.pods()
        made.kubelets.held.add("n-0")
        here.agent.take(assignment("sleep 1000", node="n-1", attempt=1))
        await here.until(lambda: "deletionTimestamp" in here.pods()[first]["metadata"])
        assert list(here.pods()) == [first]
        made.kubelets.held.clear()
        made.server.change("pods", first, lambda _: None)
        await here.until(lambda: [each for each in here.pods() if "-a1-" in each] != [])
        assert sum(made.kubelets.starts.values()) <= 2


async def test_trials_fill_more_than_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("lines", "roots"):
        monkeypatch.setattr(f"muster_cluster_agent.domain.kubernetes.{module}.LINES_IN_SHARD", 3)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("true", count=10))
        await here.until(lambda: here.told.states(1).count("GONE") == 10)
        names = sorted(item["metadata"]["name"] for item in made.server.objects["configmaps"].values())
        assert len([name for name in names if "-gone-" in name]) >= 3
        assert all(len(item.get("data") or {}) <= 3 for item in made.server.objects["configmaps"].values())
        here.agent.take(release())
        await here.nothing_left()


@pytest.mark.parametrize("seen_without_finalizer", [False, True])
async def test_a_pod_that_vanishes_is_lost_and_not_made_again(
    monkeypatch: pytest.MonkeyPatch, *, seen_without_finalizer: bool
) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()
        if seen_without_finalizer:
            made.server.change("pods", key, lambda pod: pod["metadata"].pop("finalizers"))
            await here.until(lambda: not next(iter(here.backend._cache.by_name.values())).finalizers)
        made.server.remove("pods", key)  # with its finalizer, as an administrator may
        await here.told_last("LOST")
        assert here.pods() == {}
        here.agent.take(release())
        here.backend._gone_after = 0.0
        await here.told_last("GONE")
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert gone.evidence == "vanished"
        await here.nothing_left()


async def test_an_agent_that_has_left_writes_no_end_that_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_REFUSED_SECONDS", 0.0)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()
        refused = Fault(500, "InternalError", "no lines now")
        made.server.fault = lambda verb, path: refused if verb == "PATCH" and "/configmaps/" in path else None
        made.kubelets.finish(key, 0)
        await here.told_last("SUCCEEDED")
        made.server.fault = lambda *_: None
        retired = await here.backend.retire(force=True, dry_run=False)
        assert retired.failures == ()
        assert await here.backend._recorder.write()
        assert made.server.objects["configmaps"] == {}


@pytest.mark.parametrize("cut", [marks.RUN, marks.ORIGIN, None])
async def test_a_pod_whose_labels_others_edit_is_neither_lost_nor_made_again(cut: str | None) -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()

        def edit(pod: Any) -> None:
            labels = pod["metadata"]["labels"]
            pod["metadata"]["labels"] = {} if cut is None else {name: labels[name] for name in labels if name != cut}
            pod["metadata"]["annotations"] = {marks.DEVICES: "none", marks.PATTERN: "odd"}

        made.server.change("pods", key, edit)
        made.server.forget_history()
        await made.server.cut_watches()  # the next list has it without its labels, too
        made.kubelets.finish(key, 3)
        await here.told_last("READY", "FAILED", "GONE")
        assert [*made.kubelets.starts.values()] == [1]
        assert (await here.backend.fleet()).nodes[0].foreign.slots == ()
        here.agent.take(release())
        await here.nothing_left()


async def test_a_release_waits_for_a_pod_of_which_the_answer_was_lost() -> None:
    async with scene() as made, loop(made) as here:
        made.kubelets.held.add("n-0")
        watching = True

        def fault(verb: str, path: str) -> Fault | None:
            if verb == "POST" and path.endswith("/pods"):
                return Fault(503, "ServiceUnavailable", "later", after=True)
            return Fault() if verb == "WATCH" and watching else None

        made.server.fault = fault
        await made.server.cut_watches()  # the pod is made, its answer is lost, and nothing is seen of it
        here.agent.take(assignment("sleep 1000"))
        await here.until(lambda: bool(here.pods()))
        here.agent.take(release())
        assert "GONE" not in here.told.states(1)
        watching = False
        made.kubelets.held.clear()
        await here.nothing_left()
        assert here.told.states(1)[-1] == "GONE"


async def test_a_start_that_lasts_says_what_it_is_doing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(substates, "SETTLES", 0.2)
    async with scene() as made, loop(made) as here:

        def told() -> list[str]:
            statuses = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)]
            return list(dict.fromkeys(one.start.substate.name for one in statuses if one.start is not None))

        key = await here.hinder("ErrImagePull", "registry.example: no route to host")
        await here.until(lambda: told()[-1:] == ["PULLING"])
        made.kubelets.held.clear()
        made.server.change("pods", key, lambda pod: pod["status"].update({"containerStatuses": []}))
        await here.told_last("READY")
        last = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert last.start is None


async def test_a_taint_counts_from_when_it_was_first_seen() -> None:
    async with scene() as made, loop(made, file=f"{FILE}drain_taints: {{spot: 600}}\n") as here:
        taint = {"key": "spot", "effect": "NoSchedule"}
        made.server.change("nodes", "n-0", lambda node: node["spec"].update(taints=[taint]))
        first = await drained(here)
        assert first is not None
        made.server.change("nodes", "n-0", lambda node: node["metadata"]["labels"].update(rack="r2"))
        await eventually(here.backend.fleet, lambda fleet: ("rack", "r2") in fleet.nodes[0].labels)
        assert await drained(here) == first
        made.server.change("nodes", "n-0", lambda node: node["spec"].update(taints=[]))
        await eventually(here.backend.fleet, lambda fleet: fleet.nodes[0].state is NodeState.READY)


async def drained(here: Loop) -> float | None:
    """When node n-0 goes, once it is reported so."""
    found = await eventually(here.backend.fleet, lambda fleet: fleet.nodes[0].state is NodeState.DRAINING)
    return found.nodes[0].drain_deadline
