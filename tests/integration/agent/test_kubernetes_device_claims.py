"""Device claims on the fake API server: what is reported of devices, and what becomes of a replica and its claim."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from muster_cluster_agent.adapters.kubernetes import device_cache, removal
from muster_cluster_agent.cleanup import cleanup
from muster_cluster_agent.domain.actions import Outcome
from muster_cluster_agent.domain.findings import Severity
from muster_cluster_agent.domain.fleet import Identity, Node
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.model import Assignment, Failure, Run, Share, State, Status
from muster_cluster_agent.domain.plan import plans_of
from muster_cluster_agent.ports import StatusReport
from tests.support.fake_api_server import Fault
from tests.support.kubernetes import kubeconfig_of
from tests.support.kubernetes_backends import FILE, NAMESPACE, Scene, scene
from tests.support.kubernetes_loops import Loop, assignment, counted_rounds, loop, release
from tests.support.waiting import until

UUIDS: Final = ("GPU-a", "GPU-b")


def claimed(*uuids: str, count: int = 1) -> Assignment:
    """A training, or trials, whose replicas have one of these devices each."""
    made = assignment("sleep 1000", count=count)
    shares = tuple((Share(uuid, whole=True),) for uuid in uuids) if count > 1 else (wholes(*uuids),)
    revision = replace(made.newest, runs=(Run("worker", 0, count, "n-0", shares=shares),))
    return replace(made, revisions=(revision,))


def wholes(*uuids: str) -> tuple[Share, ...]:
    return tuple(Share(uuid, whole=True) for uuid in uuids)


async def node_of(here: Loop, name: str = "n-0") -> Node:
    (found,) = [node for node in (await here.backend.fleet()).nodes if node.name == name]
    return found


def claims(here: Loop) -> dict[str, Any]:
    return here.server.objects["resourceclaims"]


def put_claim(made: Scene, name: str, *devices: str, labels: dict[str, str] | None = None) -> None:
    """A claim of others that holds devices of n-0."""
    results = [{"driver": "gpu.nvidia.com", "pool": "n-0", "device": device} for device in devices]
    metadata = {"name": name, "namespace": "team", "labels": labels or {}}
    status = {"allocation": {"devices": {"results": results}}}
    made.server.put("resourceclaims", {"metadata": metadata, "spec": {}, "status": status})


def last(here: Loop) -> Status:
    report = here.told.of(StatusReport)[-1]
    assert isinstance(report, StatusReport)
    return report.status


async def test_a_node_with_slices_has_devices_and_others_count_theirs() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        put_claim(made, "theirs", "gpu-1", labels={marks.MANAGED_BY: marks.MANAGER, marks.ORIGIN: "another"})
        async with loop(made) as here:
            node = await node_of(here)
            assert [device.uuid for device in node.devices] == [*UUIDS]
            assert (node.slots, node.foreign.devices) == ((), ("GPU-b",))
            assert [group.count for group in (await node_of(here, "n-1")).slots] == [2]
            assert (await here.backend.fleet()).profile.identity is Identity.UUID
            made.server.remove("resourceclaims", "team/theirs")
            await until(lambda: not here.backend._cache.devices.claims.items)
            assert (await node_of(here)).foreign.devices == ()


async def test_a_server_that_serves_no_claims_counts_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    passed, asked = counted_rounds(monkeypatch), list[str]()

    def note(_: str, path: str) -> Fault | None:
        asked.extend([path] if "resource.k8s.io" in path else [])
        return None

    with capture_logs() as said:
        async with scene() as made:
            made.server.unserved |= {"resourceslices", "resourceclaims"}
            made.server.fault = note
            async with loop(made) as here:
                assert [group.count for group in (await node_of(here)).slots] == [2]
                assert (await here.backend.fleet()).profile.identity is Identity.ANONYMOUS
                await here.rounds(passed)
                # It is asked once, and nothing is said of it.
                assert sorted(asked) == [
                    "/apis/resource.k8s.io/v1/resourceclaims",
                    "/apis/resource.k8s.io/v1/resourceslices",
                ]
                assert [one.text for one in await here.backend.check() if one.subject == "device claims"] == []
        assert [one for one in said if one.get("kind") in {"resourceclaims", "resourceslices"}] == []


@pytest.mark.parametrize(("source", "devices", "slots"), [("counted", 0, 1), ("slices", 2, 0), ("auto", 2, 0)])
async def test_the_cluster_file_fixes_what_tells_of_devices(source: str, devices: int, slots: int) -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made, file=f"{FILE}devices: {{source: {source}}}\n") as here:
            node, other = await node_of(here), await node_of(here, "n-1")
            assert (len(node.devices), len(node.slots)) == (devices, slots)
            assert len(other.slots) == (0 if source == "slices" else 1)


async def test_a_replica_has_a_claim_for_its_devices_until_it_is_released() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            here.agent.take(claimed("GPU-b"))
            await here.told_last("READY")
            ((key, claim),) = claims(here).items()
            (pod,) = here.pods().values()
            assert key == f"{NAMESPACE}/{pod['metadata']['name']}"
            assert [one["device"] for one in claim["status"]["allocation"]["devices"]["results"]] == ["gpu-1"]
            (replica,) = await here.backend.list()
            assert (replica.devices, replica.charge) == (("GPU-b",), 7_000)
            # What its own replica holds is no foreign device.
            assert (await node_of(here)).foreign.devices == ()
            here.agent.take(release())
            await here.told_last("GONE")
            await here.nothing_left()


async def test_ready_waits_for_the_claim_and_gone_for_its_release() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        made.kubelets.releases = False
        async with loop(made) as here:
            here.agent.take(claimed("GPU-a"))
            await here.told_last("READY")
            ((key, claim),) = claims(here).items()
            status = claim["status"]
            made.server.change("resourceclaims", key, lambda item: item.update(status={}))
            await here.told_last("READY", "STARTING")
            made.server.change("resourceclaims", key, lambda item: item.update(status=status))
            await here.told_last("STARTING", "READY")
            made.kubelets.finish(key, 0)
            await here.told_last("SUCCEEDED")
            made.server.change("resourceclaims", key, lambda item: item.update(status={}))
            await here.told_last("SUCCEEDED", "GONE")


async def test_a_replica_ends_also_where_its_claim_can_be_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    counted_rounds(monkeypatch)
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        made.kubelets.releases = False
        async with loop(made) as here:
            here.agent.take(claimed("GPU-a"))
            await here.told_last("READY")
            ((key, _),) = claims(here).items()
            made.kubelets.finish(key, 0)
            await here.told_last("SUCCEEDED")
            forbidden = Fault(403, "Forbidden", "the agent may not list resourceclaims")
            made.server.fault = lambda _, path: forbidden if path.endswith("/resourceclaims") else None
            await made.server.cut_watches()
            await here.told_last("SUCCEEDED", "GONE")
            observed = here.backend.observed_at()
            await here.until(lambda: here.backend.observed_at() > observed)  # the other kinds are followed


async def test_other_devices_than_the_assigned_ones_are_told() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            here.agent.take(claimed("GPU-a"))
            await here.told_last("READY")
            ((key, _),) = claims(here).items()

            def move(item: Any) -> None:
                item["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-1"

            made.server.change("resourceclaims", key, move)
            await here.until(lambda: last(here).devices == ("GPU-b",))
            assert last(here).state is State.READY


@pytest.mark.parametrize("results", [0, 1])
async def test_another_number_of_devices_is_a_fault_of_the_cluster(
    results: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted_rounds(monkeypatch)
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            here.agent.take(claimed("GPU-a", "GPU-b"))
            await here.told_last("READY")
            ((key, _),) = claims(here).items()

            def take(item: Any) -> None:
                del item["status"]["allocation"]["devices"]["results"][results:]

            made.server.change("resourceclaims", key, take)
            await here.told_last("FAILED", "GONE")
            assert last(here).failure is Failure.INFRASTRUCTURE


async def test_a_device_that_its_driver_no_longer_lists_stops_its_replica() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            here.agent.take(claimed("GPU-b"))
            await here.told_last("READY")
            made.kubelets.add_devices("n-0", "GPU-a", generation=2)
            await here.told_last("FAILED", "GONE")
            assert last(here).failure is Failure.INFRASTRUCTURE


async def test_a_driver_that_starts_again_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted_rounds(monkeypatch)
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            here.agent.take(claimed("GPU-b"))
            await here.told_last("READY")
            made.server.remove("resourceslices", "n-0-gpus")
            await here.rounds(passed)
            assert [device.healthy for device in (await node_of(here)).devices] == [False, False]
        async with loop(made, here.told) as again:  # an agent that has never seen the slices
            await again.rounds(passed)
            (replica,) = await again.backend.list()
            assert (replica.ready, replica.stop_reason) == (True, "")
            made.kubelets.add_devices("n-0", *UUIDS)
            await until(lambda: again.backend._cache.devices.found)
            await again.rounds(passed)
            assert here.told.states(1)[-1] == "READY"


async def test_the_devices_of_a_driver_that_was_removed_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted_rounds(monkeypatch)
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            here.agent.take(claimed("GPU-b"))
            await here.told_last("READY")
            monkeypatch.setattr(device_cache, "MISSING_SECONDS", 0.0)
            made.server.remove("resourceslices", "n-0-gpus")
            await here.rounds(passed)
            assert len((await node_of(here)).devices) == 2, "a replica has one of them"
            here.agent.take(release())
            await here.nothing_left()
            await here.rounds(passed)
            node = await node_of(here)
            assert (node.devices, [group.count for group in node.slots]) == ((), [2])


async def test_claims_of_refused_and_lost_replicas_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted_rounds(monkeypatch)
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        made.kubelets.full.add("n-0")
        async with loop(made) as here:
            here.agent.take(claimed("GPU-a"))
            await here.refused("ForeignTaken")
            await here.until(lambda: claims(here) == {})
        put_claim(made, "theirs", "gpu-1")
        own = claimed_by_nobody(here)
        made.server.put("resourceclaims", own)
        async with loop(made) as again:
            await again.rounds(passed)
            await again.until(lambda: [*claims(again)] == ["team/theirs"])


async def test_a_claim_that_is_being_taken_away_serves_no_new_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()
    delete = removal.delete

    async def slow(*given: Any, **options: Any) -> None:
        await go_on.wait()
        await delete(*given, **options)

    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            found = here.backend._acting.claims
            (plan,) = [
                plan for plans in plans_of(claimed("GPU-a")).values() if not isinstance(plans, str) for plan in plans
            ]
            assert await found.ensure(plan, "root") is None
            monkeypatch.setattr(removal, "delete", slow)
            sweep = asyncio.create_task(found.sweep())
            await asyncio.sleep(0)
            answer = await found.ensure(plan, "root")
            assert answer is not None
            assert answer.outcome is Outcome.UNKNOWN
            go_on.set()
            await sweep
            assert claims(here) == {}
            assert await found.ensure(plan, "root") is None
            assert len(claims(here)) == 1


def claimed_by_nobody(here: Loop) -> dict[str, Any]:
    """A claim that an agent made and whose pod it never came to make."""
    labels = {**here.backend._acting._owner.labels(), marks.WORKLOAD: "w", marks.RUN: "g1-a0"}
    return {"metadata": {"name": "w-x-g1-a0-worker-0-r0", "namespace": NAMESPACE, "labels": labels}, "spec": {}}


async def test_a_claim_of_another_owner_is_never_adopted() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        wanted = claimed("GPU-a")
        async with loop(made) as here:
            (plan_name,) = names_of(wanted)
            body = {"metadata": {"name": plan_name, "namespace": NAMESPACE, "labels": {}}, "spec": {}}
            made.server.put("resourceclaims", body)
            here.agent.take(wanted)
            refused = await here.refused("NameConflict")
            assert "ResourceClaim" in refused.refusal.message
            assert here.pods() == {}
            assert [*claims(here)] == [f"{NAMESPACE}/{plan_name}"]


def names_of(assigned: Assignment) -> list[str]:
    return [plan.name for plans in plans_of(assigned).values() if not isinstance(plans, str) for plan in plans]


async def test_a_claim_for_other_devices_is_replaced() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        wanted = claimed("GPU-a")
        async with loop(made) as here:
            (plan_name,) = names_of(wanted)
            labels = {**here.backend._acting._owner.labels(), marks.WORKLOAD: wanted.workload_id, marks.RUN: "g1-a0"}
            metadata = {"name": plan_name, "namespace": NAMESPACE, "labels": labels, "annotations": {marks.SPEC: "old"}}
            made.server.put("resourceclaims", {"metadata": metadata, "spec": {}})
            here.agent.take(wanted)
            await here.told_last("READY")
            (claim,) = claims(here).values()
            assert '"GPU-a"' in json.dumps(claim["spec"]).replace("\\", "")


async def test_trials_have_a_claim_each_and_a_cluster_that_leaves_has_none() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            here.agent.take(claimed(*UUIDS, count=2))
            await here.until(lambda: len(made.kubelets.starts) == 2)
            held = [claim["status"]["allocation"]["devices"]["results"] for claim in claims(here).values()]
            assert sorted(one["device"] for (one,) in held) == ["gpu-0", "gpu-1"]
            retired = await here.backend.retire(force=True, dry_run=False)
            assert retired.failures == ()
            await here.until(lambda: claims(here) == {})


async def test_the_check_asks_for_the_class_of_the_claims() -> None:
    async with scene() as made:
        made.kubelets.add_devices("n-0", *UUIDS)
        async with loop(made) as here:
            found = [one for one in await here.backend.check() if one.subject == "device claims"]
            assert [one.severity for one in found] == [Severity.ERROR, Severity.WARNING]
            made.server.put("deviceclasses", {"metadata": {"name": "gpu.nvidia.com"}})
            found = [one for one in await here.backend.check() if one.subject == "device claims"]
            assert [one.severity for one in found] == [Severity.WARNING, Severity.OK]


async def test_an_agent_without_the_rights_counts_devices_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted_rounds(monkeypatch)
    with capture_logs() as said:
        async with scene() as made:
            made.kubelets.add_devices("n-0", *UUIDS)
            forbidden = Fault(403, "Forbidden", "the agent may not list resourceclaims")
            made.server.fault = lambda _, path: forbidden if path.endswith("/resourceclaims") else None
            async with loop(made) as here:
                # What others hold is not known, so that no device can be named.
                assert [group.count for group in (await node_of(here)).slots] == [2]
                made.server.fault = lambda *_: None
                await until(lambda: here.backend._cache.devices.known)
                await here.rounds(passed)
                assert [device.uuid for device in (await node_of(here)).devices] == [*UUIDS]
        kinds = [one["kind"] for one in said if one["event"] == "objects of the cluster cannot be followed"]
        assert kinds == ["resourceclaims"]


@pytest.mark.parametrize("served", [True, False])
async def test_a_cleanup_takes_claims_of_the_cluster_away(
    served: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with scene() as made:
        put_claim(made, "theirs", "gpu-1")
        labels = {marks.MANAGED_BY: marks.MANAGER, marks.CLUSTER: "lab"}
        put_claim(made, "ours", "gpu-0", labels=labels)
        if not served:
            made.server.unserved.add("resourceclaims")
        kubeconfig.write_text(kubeconfig_of(made.server.url, "none"))
        assert await cleanup("lab", kubeconfig=kubeconfig, yes=True, json=True) == 0
        assert json.loads(capsys.readouterr().out)["objects"] == ({"resourceclaims": 1} if served else {})
        left = ["team/theirs"] if served else ["team/theirs", "team/ours"]
        assert [*made.server.objects["resourceclaims"]] == left
