"""What an API server is asked to make, which of its calls fail, and what others have or do there."""

from __future__ import annotations

from typing import Any, Final

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import storage_pb2, workload_pb2
from muster_kernel.reasons import ChangeReason
from tests.conformance import programs
from tests.conformance.kubelets import BAD_IMAGES, MERGE, REJECTED_IMAGE
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of, fake_of
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, LOST, READY, SUCCEEDED, Stage, gang, run
from tests.support.fake_api_server import Fault
from tests.support.fake_kubelet import unschedulable
from tests.support.waiting import eventually, until

START: Final = fleet_pb2.FAILURE_CLASS_START
INFRASTRUCTURE: Final = fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE


@case(Capability.CONTAINERS)
async def a_pod_carries_who_it_is(stage: Stage) -> None:
    work = await stage.running()
    pod = await cluster_of(stage).pod(work.name())
    labels = pod["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "muster"
    assert labels["muster.io/workload"] == work.id
    assert labels["muster.io/project"] == "p"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["metadata"]["finalizers"] == ["muster.io/gone"]
    await work.release()
    await work.nothing_left()


@case(Capability.CONTAINERS)
async def labels_of_users_cannot_forge_identity(stage: Stage) -> None:
    labels = [workload_pb2.MapEntry(label="muster.io/workload", value="x"), workload_pb2.MapEntry(label="a", value="b")]
    work = stage.work(programs.WAITS, labels=labels)
    await work.assign()
    await work.state(READY)
    found = (await cluster_of(stage).pod(work.name()))["metadata"]["labels"]
    assert (found["muster.io/workload"], found["a"]) == (work.id, "b")


@case(Capability.CONTAINERS)
async def a_kubelet_that_refuses_a_pod_is_no_failure(stage: Stage) -> None:
    work = stage.work(programs.WAITS, image=REJECTED_IMAGE, runs=[run(node=stage.platform.spoken_for)])
    await work.assign()
    refused = await work.refused("ForeignTaken")
    assert refused.node == stage.platform.spoken_for
    assert FAILED not in {message.status.state for message in work.reports()}
    await work.release()
    await work.nothing_left()


@case(Capability.CONTAINERS)
async def a_node_that_others_have_filled_refuses_and_fails_nothing(stage: Stage) -> None:
    node = stage.node()
    cluster_of(stage).kubelets.unbound[node] = unschedulable()
    work = stage.work(programs.WAITS, runs=[run(node=node)])
    await work.assign()
    refused = await work.refused("ForeignTaken")
    assert (refused.node, refused.retry_after_seconds > 0) == (node, True)
    assert "Insufficient nvidia.com/gpu" in refused.reason.message
    await work.assign(attempt=1, revision=1, runs=[run()])
    await work.state(READY, attempt=1)
    assert FAILED not in {message.status.state for message in work.reports()}


@case(
    Capability.CONTAINERS,
    given=[
        ("Gated", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"),
        ("MissingObject", "Unschedulable", 'persistentvolumeclaim "data" not found'),
    ],
)
async def a_pod_that_is_held_back_is_refused(stage: Stage, code: str, reason: str, message: str) -> None:
    node = stage.node()
    cluster_of(stage).kubelets.unbound[node] = unschedulable(reason, message)
    work = stage.work(programs.WAITS, runs=[run(node=node)])
    await work.assign()
    refused = await work.refused(code)
    assert message in refused.reason.message
    assert refused.retry_after_seconds > 0
    await work.release()
    await work.nothing_left()
    assert FAILED not in {each.status.state for each in work.reports()}
    assert await work.starts() == 0


@case(Capability.CONTAINERS)
async def what_a_project_may_mount_is_in_the_inventory(stage: Stage) -> None:
    await stage.passed()  # so that its namespace is there
    kubelets, name = cluster_of(stage).kubelets, f"data-{stage.node()}"
    path = f"/api/v1/namespaces/{stage.namespace}/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await kubelets.call("POST", path, {"metadata": {"name": name}, "spec": spec})
    named = await stage.bus.first(lambda m: name in _claims_of(m, stage.namespace))
    await kubelets.call("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, content=MERGE)
    await kubelets.call("DELETE", f"{path}/{name}")

    def takes_back(message: Any) -> bool:
        later = isinstance(message, agent_pb2.InventoryReported) and message.order.sequence > named.order.sequence
        return later and name not in _claims_of(message, stage.namespace) and _tells(message, stage.namespace)

    await stage.bus.first(takes_back)


def _claims_of(message: Any, namespace: str) -> list[str]:
    """The claims of a namespace that a report names."""
    found = message.inventory.objects if isinstance(message, agent_pb2.InventoryReported) else ()
    return [name for each in found if each.namespace == namespace for name in each.claims]


def _tells(message: agent_pb2.InventoryReported, namespace: str) -> bool:
    """Whether a report says anything of the objects of a namespace."""
    told = {each.namespace for each in message.inventory.objects}
    return message.inventory.full or namespace in told or namespace in message.inventory.removed_namespaces


@case(Capability.CONTAINERS, given=BAD_IMAGES)
async def an_image_that_can_never_start_ends_its_start(stage: Stage, image: str) -> None:
    work = stage.work(programs.WAITS, image=image, image_pull_policy=workload_pb2.IMAGE_PULL_POLICY_NEVER)
    await work.assign()
    failed = await work.state(FAILED)
    assert failed.failure == START
    assert "mage" in failed.message
    await work.state(GONE)
    assert await work.starts() == 0


@case(Capability.CONTAINERS)
async def without_a_command_the_image_starts_its_own(stage: Stage) -> None:
    work = stage.work("")
    await work.assign(args="--port 8080")
    await work.state(READY)
    (main,) = (await cluster_of(stage).pod(work.name()))["spec"]["containers"]
    assert ("command" in main, main["args"]) == (False, ["--port", "8080"])


@case(Capability.CONTAINERS)
async def without_an_image_there_is_no_pod(stage: Stage) -> None:
    work = stage.work(programs.WAITS, image="")
    await work.assign()
    assert "image" in (await work.refused("Unsupported")).reason.message


@case(Capability.CONTAINERS)
async def a_pod_that_others_delete_is_a_fault_of_the_infrastructure(stage: Stage) -> None:
    work = await stage.running()
    path = f"/api/v1/namespaces/{stage.namespace}/pods/{work.name()}"
    await cluster_of(stage).kubelets.call("DELETE", path, {"gracePeriodSeconds": 5})
    gone = await work.state(GONE)
    assert gone.failure == INFRASTRUCTURE
    assert "deleted by others" in gone.message
    await work.release()
    await work.nothing_left()


@case(Capability.CONTAINERS)
async def a_name_that_is_taken_is_not_adopted(stage: Stage) -> None:
    await stage.passed()  # the namespace is there
    work = stage.work(programs.WAITS)
    root = work.name().removesuffix("-worker-0-r0")
    labels = {"app.kubernetes.io/managed-by": "helm"}
    body = {"metadata": {"name": root, "labels": labels}, "data": {"theirs": "yes"}}
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps"
    await cluster_of(stage).kubelets.call("POST", path, body)
    await work.assign()
    assert "belongs to helm" in (await work.refused("NameConflict")).reason.message
    found = await cluster_of(stage).kubelets.call("GET", f"{path}/{root}")
    assert found["data"] == {"theirs": "yes"}
    assert found["metadata"]["labels"] == labels


@case(Capability.CONTAINERS, given=["ConfigMap", "Secret", "claim"])
async def what_muster_made_for_another_workload_cannot_be_mounted(stage: Stage, kind: str) -> None:
    name = f"w-{'a' * 20}-x"
    volumes: dict[str, dict[str, Any]] = {
        "ConfigMap": {"config_map_volumes": [storage_pb2.ConfigMapVolume(label="v", config_map=name, mount_path="/v")]},
        "Secret": {"secret_volumes": [storage_pb2.SecretVolume(label="v", secret=name, mount_path="/v")]},
        "claim": {
            "pvcs": [storage_pb2.PersistentVolumeClaim(label="v", claim_name=name, path="/v", existing_pvc=True)]
        },
    }
    work = stage.work(programs.WAITS, **volumes[kind])
    await work.assign()
    assert "Muster's own" in (await work.refused("Unsupported")).reason.message
    assert await cluster_of(stage).left(work.id) == []


@case(Capability.CONTAINERS)
async def a_claim_outlives_its_run_and_is_found_by_the_next(stage: Stage) -> None:
    claim = storage_pb2.PersistentVolumeClaim(label="data", path="/data", size="1Gi")
    work = stage.work(programs.WAITS, pvcs=[claim], runs=[run(node=stage.platform.spoken_for)])
    await work.assign()
    await work.state(READY)
    await work.release(reason=ChangeReason.SUSPENDED.value)
    await work.state(GONE)
    kept = await eventually(lambda: cluster_of(stage).left(work.id), lambda found: len(found) == 2)
    assert {each.partition("/")[0] for each in kept} == {"configmaps", "persistentvolumeclaims"}
    await work.assign(attempt=1, revision=1)
    await work.state(READY, attempt=1)
    pod = await cluster_of(stage).pod(work.name(attempt=1))
    names = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]]
    assert [f"persistentvolumeclaims/{name}" for name in names] == [each for each in kept if "claims" in each]
    await work.release(attempt=1, reason=ChangeReason.DELETED.value)
    await work.state(GONE, attempt=1)
    # No port leads to it: what is kept goes once submission says that its workload is deleted.
    assert await eventually(lambda: cluster_of(stage).left(work.id), lambda found: len(found) == 2) == kept


@case(Capability.CONTAINERS)
async def an_ephemeral_claim_goes_with_its_run(stage: Stage) -> None:
    claim = storage_pb2.PersistentVolumeClaim(label="data", path="/data", size="1Gi", ephemeral=True)
    work = stage.work(programs.WAITS, pvcs=[claim], runs=[run(node=stage.platform.spoken_for)])
    await work.assign()
    await work.state(READY)
    assert [each for each in await cluster_of(stage).left(work.id) if each.startswith("persistentvolumeclaims/")]
    await work.release()
    await work.nothing_left()


@case(Capability.CONTAINERS)
async def a_gang_has_addresses_and_a_budget_until_it_is_released(stage: Stage) -> None:
    work = stage.work(programs.WAITS, **gang(workload_pb2.FRAMEWORK_TF, 2))
    await work.assign()
    for index in range(2):
        await work.state(READY, name=work.name(index=index))
    kinds = {each.partition("/")[0] for each in await cluster_of(stage).left(work.id)}
    assert kinds >= {"pods", "configmaps", "services", "poddisruptionbudgets", "networkpolicies"}
    await work.release()
    await work.nothing_left()


@case(Capability.CONTAINERS)
async def an_address_outside_is_made_and_told(stage: Stage) -> None:
    exposed = [workload_pb2.ExposedUrl(label="web", container=8080)]
    work = stage.work(programs.WAITS, exposed_urls=exposed)
    made = await work.assign()
    await work.state(READY)
    host = f"{made.name}-p.lab.example"
    await stage.bus.first(lambda m: f"http://{host}" in getattr(m, "endpoints", ()), workload=work.id)
    listed = await cluster_of(stage).kubelets.call(
        "GET", f"/apis/networking.k8s.io/v1/namespaces/{stage.namespace}/ingresses"
    )
    assert host in {item["spec"]["rules"][0]["host"] for item in listed["items"]}


@case(
    Capability.API_FAULTS,
    given=[(verb, after) for verb in ("POST", "PATCH", "DELETE") for after in (False, True)],
    alone=True,
)
async def answers_that_are_lost_double_and_lose_nothing(stage: Stage, verb: str, after: bool) -> None:
    turns: dict[tuple[str, str], int] = {}

    def fault(asked: str, path: str) -> Fault | None:
        if asked != verb or path.endswith(("/status", "/binding")) or "/leases/" in path:
            return None
        turns[asked, path] = turns.get((asked, path), 0) + 1
        return Fault(503, "ServiceUnavailable", "try later", after=after) if turns[asked, path] % 2 else None

    fake_of(stage).server.fault = fault
    work = await stage.running()
    await work.release()
    await work.state(GONE)
    fake_of(stage).server.fault = lambda *_: None
    await work.nothing_left()
    assert turns, "no call has failed"
    assert await work.starts() == 1


@case(Capability.API_FAULTS, alone=True)
async def what_happens_while_no_watch_stands_is_seen_by_the_next_list(stage: Stage) -> None:
    ends, vanishes, other = (stage.work(programs.WAITS) for _ in range(3))
    for work in (ends, vanishes):
        await work.assign()
        await work.state(READY)
    server = fake_of(stage).server
    server.fault = lambda verb, _: Fault(503, "ServiceUnavailable", "later") if verb == "WATCH" else None
    await server.cut_watches()
    await ends.finish(3)
    await until(lambda: server.objects["pods"][f"{stage.namespace}/{ends.name()}"]["status"]["phase"] == "Failed")
    server.remove("pods", f"{stage.namespace}/{vanishes.name()}")  # its finalizer too, as an administrator may
    server.forget_history()
    server.fault = lambda *_: None
    assert (await ends.state(FAILED)).exit_code == 3
    await vanishes.state(LOST)
    assert await vanishes.starts() == 1
    await other.assign(command=programs.ends(0))
    await other.state(SUCCEEDED)


@case(Capability.API_FAULTS, alone=True, long=True)
async def an_api_server_that_is_silent_is_told_and_nothing_is_lost(stage: Stage) -> None:
    work = await stage.running()
    server = fake_of(stage).server
    server.fault = lambda _, path: None if path.endswith("/status") else Fault(503, "ServiceUnavailable", "down")
    await server.cut_watches()
    await stage.bus.first(
        lambda m: isinstance(m, agent_pb2.Heartbeat) and m.backend != agent_pb2.BACKEND_HEALTH_OK, within=90
    )
    assert "GONE" not in work.states()
    server.fault = lambda *_: None
    await work.finish(0)
    await work.state(SUCCEEDED)
    assert await work.starts() == 1
