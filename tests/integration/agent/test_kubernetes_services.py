"""Services on the Kubernetes back end: which pods their address leads to, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster_cluster_agent.domain.container import Container, ExposedPort, Reach, ServedPort
from muster_cluster_agent.domain.kubernetes.names import workload_base
from muster_cluster_agent.domain.model import Assignment, Pattern, Release, Revision, Run, State, Template
from muster_cluster_agent.ports import StatusReport
from muster_kernel.reasons import ChangeReason
from tests.support.agents import workload_id
from tests.support.kubernetes_backends import FILE, NAMESPACE, OWNER, PROJECT, scene
from tests.support.kubernetes_loops import ID, Loop, loop


def service(
    *ports: ServedPort,
    count: int = 2,
    generation: int = 1,
    older: Assignment | None = None,
    exposed: tuple[ExposedPort, ...] = (),
) -> Assignment:
    """Servers on one node; older: what still runs beside them."""
    ports = ports or (ServedPort(8080),)
    numbers = tuple(port.container for port in ports)
    template = Template(
        command="serve", ports=numbers, container=Container("team/chat:1", ports=ports, exposed=exposed)
    )
    revision = Revision(generation, 0, Pattern.SERVICE, template, (Run("worker", 0, count, "n-0"),))
    revisions = (*(older.revisions if older else ()), revision)
    return Assignment(ID, 1, "me", generation, revisions, PROJECT, NAMESPACE, "chat", grace=5.0)


WITH_URLS = f"{FILE}urls: {{domain: lab.example}}\n"


def hosts(here: Loop) -> dict[str, str]:
    """The host of each Ingress by the port to which it leads."""
    rules = [each["spec"]["rules"][0] for each in here.server.objects["ingresses"].values()]
    return {rule["http"]["paths"][0]["backend"]["service"]["port"]["name"]: rule["host"] for rule in rules}


def others_ingress(namespace: str, host: str, **labels: str) -> Any:
    metadata = {"name": "theirs", "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": {"rules": [{"host": "x.example"}, {"host": host}]}}


def serving(here: Loop) -> set[str]:
    """The replicas that the address leads to, as role and index of a generation."""
    pods = [pod["metadata"] for pod in here.pods().values()]
    return {one["name"].split("-", 2)[2] for one in pods if "muster.io/serving" in one["labels"]}


def services(here: Loop) -> dict[str, Any]:
    return {key.partition("/")[2]: one["spec"] for key, one in here.server.objects["services"].items()}


async def test_an_address_leads_to_what_is_ready_and_outlives_a_stop() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(service())
        await here.until(lambda: serving(here) == {"g1-a0-worker-0-r0", "g1-a0-worker-1-r0"})
        reports = [each for each in here.told.of(StatusReport) if isinstance(each, StatusReport)]
        assert {each.endpoints for each in reports if each.status.state is State.READY} == {
            ("http://chat.runai-p.svc:8080",)
        }
        assert {each.status.endpoints[0][:14] for each in reports if each.status.state is State.READY} == {
            "http://10.0.0."
        }
        here.agent.take(Release(ID, 1, 1, 0, 5.0, ChangeReason.SUSPENDED.value))
        await here.until(lambda: not here.pods())
        assert [*services(here)] == ["chat"]
        await here.until(lambda: here.of_ours() == ["chat", workload_base(ID)])
        assert [each.workload_id for each in await here.backend.kept(10)] == [ID]
        assert await here.backend.kept(10) == []  # after the last one comes the first
        await here.backend.forget([ID])
        await here.nothing_left()


async def test_an_address_goes_with_a_workload_that_is_deleted() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(service(ServedPort(8080), ServedPort(9090, 0, Reach.BALANCER)))
        await here.until(lambda: len(serving(here)) == 2)
        assert len(services(here)) == 2
        await here.backend.forget([ID])  # of what runs nothing is taken away
        assert len(services(here)) == 2
        here.agent.take(Release(ID, 1, 1, 0, 5.0, ChangeReason.DELETED.value))
        await here.nothing_left()


async def test_a_replica_that_is_replaced_gets_no_new_requests() -> None:
    async with scene() as made, loop(made) as here:
        old = service()
        here.agent.take(old)
        await here.until(lambda: len(serving(here)) == 2)
        made.kubelets.held.add("n-0")  # what is asked to stop goes on for now
        here.agent.take(service(count=1, generation=2))
        await here.until(lambda: not serving(here))
        made.kubelets.held.clear()
        for key in [*here.pods()]:
            made.server.change("pods", key, lambda _: None)
        await here.until(lambda: serving(here) == {"g2-a0-worker-0-r0"})


async def test_two_revisions_serve_side_by_side_and_the_newer_ones_ports_count() -> None:
    async with scene() as made, loop(made) as here:
        old = service(ServedPort(8080), ServedPort(7070, 30070, Reach.NODES))
        here.agent.take(old)
        await here.until(lambda: len(serving(here)) == 2)
        assert len(services(here)) == 2
        here.agent.take(service(ServedPort(8080, 80), generation=2, older=old))
        await here.until(lambda: len(serving(here)) == 4)
        assert [each["port"] for each in services(here)["chat"]["ports"]] == [80]
        assert [*services(here)] == ["chat"]


async def test_an_agent_that_follows_changes_the_ports_that_it_finds() -> None:
    async with scene() as made:
        old = service(ServedPort(8080))
        async with loop(made) as here:
            here.agent.take(old)
            await here.until(lambda: len(serving(here)) == 2)
        async with loop(made) as here:
            here.agent.take(service(ServedPort(8080), ServedPort(9090, 0, Reach.NODES), generation=2, older=old))
            await here.until(lambda: len(serving(here)) == 4)
            assert len(services(here)) == 2
            assert len(services(here)["chat"]["ports"]) == 2
            here.agent.take(Release(ID, 1, 2, 0, 5.0, ChangeReason.DELETED.value))
            await here.nothing_left()


async def test_the_name_of_a_workload_that_is_on_its_way_out_is_waited_for() -> None:
    async with scene() as made, loop(made) as here:
        labels = {**OWNER.labels(), "muster.io/workload": workload_id(2)}
        made.server.put(
            "services", {"metadata": {"name": "chat", "namespace": NAMESPACE, "labels": labels}, "spec": {}}
        )
        here.agent.take(service())
        report = await here.refused("NameInUse")
        assert report.refusal.retry_after == 60
        assert "services" in made.server.objects
        made.server.remove("services", f"{NAMESPACE}/chat")
        await here.until(lambda: len(serving(here)) == 2)


async def test_a_root_tells_when_its_workload_was_last_started() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(service())
        await here.until(lambda: len(serving(here)) == 2)
        key = f"{NAMESPACE}/{workload_base(ID)}"

        def age(root: Any) -> None:
            root["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
            root["metadata"]["annotations"]["muster.io/used"] = "1577836800"

        made.server.change("configmaps", key, age)
        here.agent.take(Release(ID, 1, 1, 0, 5.0, ChangeReason.SUSPENDED.value))
        await here.until(lambda: not here.pods())
        await here.until(lambda: here.of_ours() == ["chat", workload_base(ID)])
        (old,) = await here.backend.kept(10)
        assert old.used == 1577836800
        here.agent.take(service(generation=2))
        await here.until(lambda: len(serving(here)) == 2)
        assert int(made.server.objects["configmaps"][key]["metadata"]["annotations"]["muster.io/used"]) > 1577836800


async def test_a_namespace_that_is_another_one_gets_everything_again() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(service())
        await here.until(lambda: len(serving(here)) == 2)
        here.agent.take(Release(ID, 1, 1, 0, 5.0, ChangeReason.SUSPENDED.value))
        await here.until(lambda: not here.pods())
        for kind in ("services", "configmaps"):
            for key in [*made.server.objects[kind]]:
                made.server.remove(kind, key)
        made.server.remove("namespaces", NAMESPACE)
        made.kubelets.add_namespace(NAMESPACE, PROJECT)
        await here.until(lambda: not here.backend._cache.workload_roots)
        here.agent.take(service(generation=2))
        await here.until(lambda: len(serving(here)) == 2)
        assert [*services(here)] == ["chat"]


async def test_an_address_outside_follows_the_newest_revision_and_goes_with_its_workload() -> None:
    async with scene() as made, loop(made, file=WITH_URLS) as here:
        old = service(exposed=(ExposedPort("web", 8080), ExposedPort("own", 8080, "http://mine.lab.example")))
        here.agent.take(old)
        await here.until(lambda: len(serving(here)) == 2)
        names = {each["metadata"]["name"] for each in here.server.objects["ingresses"].values()}
        assert names == {f"{workload_base(ID)}-url-web", f"{workload_base(ID)}-url-own"}
        reports = [each for each in here.told.of(StatusReport) if isinstance(each, StatusReport)]
        assert "http://mine.lab.example" in {url for each in reports for url in each.endpoints}
        new = service(ServedPort(8080), ServedPort(9090), generation=2, older=old, exposed=(ExposedPort("web", 9090),))
        here.agent.take(new)
        await here.until(lambda: len(serving(here)) == 4)
        assert hosts(here) == {"p-9090": "chat-p.lab.example"}
        here.agent.take(Release(ID, 1, 2, 0, 5.0, ChangeReason.SUSPENDED.value))
        await here.until(lambda: not here.pods())
        assert hosts(here) == {"p-9090": "chat-p.lab.example"}
        await here.until(lambda: here.of_ours() == ["chat", workload_base(ID), f"{workload_base(ID)}-url-web"])
        await here.backend.forget([ID])
        await here.nothing_left()


async def test_an_old_replica_that_is_replaced_during_a_rollout_changes_no_address() -> None:
    async with scene() as made, loop(made, file=WITH_URLS) as here:
        old = service(exposed=(ExposedPort("web", 8080),))
        here.agent.take(old)
        await here.until(lambda: len(serving(here)) == 2)
        new = service(ServedPort(9090), generation=2, older=old, exposed=(ExposedPort("web", 9090),))
        here.agent.take(new)
        await here.until(lambda: len(serving(here)) == 4)
        assert hosts(here) == {"p-9090": "chat-p.lab.example"}
        runs = (Run("worker", 0, 1, "n-0"), Run("worker", 1, 1, "n-0", k=1))
        again = replace(new, revision=3, revisions=(replace(old.newest, runs=runs), new.newest))
        here.agent.take(again)
        await here.until(lambda: "g1-a0-worker-1-r1" in serving(here))
        assert hosts(here) == {"p-9090": "chat-p.lab.example"}
        assert [each["port"] for each in services(here)["chat"]["ports"]] == [9090]


async def test_a_host_that_a_workload_has_stays_its_own() -> None:
    async with scene() as made, loop(made, file=WITH_URLS) as here:
        here.agent.take(service(exposed=(ExposedPort("web", 8080),)))
        await here.until(lambda: len(serving(here)) == 2)
        made.server.put("ingresses", others_ingress("shop", "chat-p.lab.example"))
        first = service(exposed=(ExposedPort("web", 8080),))
        later = replace(first, revision=2, revisions=(replace(first.newest, attempt=1),))
        here.agent.take(later)
        await here.until(lambda: serving(here) == {"g1-a1-worker-0-r0", "g1-a1-worker-1-r0"})


async def test_a_host_of_others_is_not_taken() -> None:
    async with scene() as made, loop(made, file=WITH_URLS) as here:
        made.server.put("ingresses", others_ingress("shop", "chat-p.lab.example"))
        here.agent.take(service(exposed=(ExposedPort("web", 8080),)))
        report = await here.refused("NameConflict")
        assert report.refusal.message == (
            "the host chat-p.lab.example belongs to an Ingress of another namespace: choose another one by `url` of "
            "exposedUrls"
        )
        assert len(made.server.objects["ingresses"]) == 1


async def test_a_host_of_another_workload_is_waited_for() -> None:
    async with scene() as made, loop(made, file=WITH_URLS) as here:
        labels = {**OWNER.labels(), "muster.io/workload": workload_id(2)}
        made.server.put("ingresses", others_ingress(NAMESPACE, "mine.lab.example", **labels))
        here.agent.take(service(exposed=(ExposedPort("own", 8080, "http://mine.lab.example"),)))
        report = await here.refused("NameInUse")
        assert "the host mine.lab.example belongs to Ingress theirs" in report.refusal.message
        made.server.remove("ingresses", f"{NAMESPACE}/theirs")


async def test_a_host_outside_of_the_clusters_domain_is_refused() -> None:
    async with scene() as made, loop(made, file=WITH_URLS) as here:
        here.agent.take(service(exposed=(ExposedPort("own", 8080, "https://bank.example"),)))
        report = await here.refused("Unsupported")
        assert "not below lab.example" in report.refusal.message
