"""Tenancy, templates, usage, changes of running services, what is passed on, and records that are no events."""

from __future__ import annotations

import random
from typing import Any

import grpc
import pytest
from aiokafka import AIOKafkaProducer

from muster.api.v1 import (
    dead_letters_pb2,
    explain_pb2,
    fleet_pb2,
    fleet_pb2_grpc,
    policies_pb2,
    templates_pb2,
    tenancy_pb2,
    usage_pb2,
)
from muster.api.v1 import workloads_pb2 as api
from muster.events.v1 import scheduler_pb2, submission_pb2, telemetry_pb2
from muster.options.v1 import options_pb2
from muster.tenancy.v1.tenancy_pb2 import PoolQuota
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.codec import MessageDecoder
from muster_chassis.topics import ADVICE, DECISIONS, SUBMISSIONS, TENANCY
from tests.integration.submission.test_submitting import DECODER, Heard
from tests.support.doors import Door, door, draft, key, moved, placed, training, violations
from tests.support.processes import free_port
from tests.support.waiting import eventually, until

STATUS = grpc.StatusCode


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


async def test_projects_and_quotas(database: Any, kafka: str) -> None:
    decoder = MessageDecoder(
        [submission_pb2.DepartmentChanged, submission_pb2.ProjectChanged, submission_pb2.TemplateChanged]
    )
    async with door(database, kafka) as here:
        heard = Heard()
        here.scheduler.consume(heard, TENANCY, decoder=decoder, assigned=True)
        made = await here.project(quotas=[PoolQuota(node_pool="default", gpu_deserved=7000)])
        assert (made.namespace, made.department, made.version, made.id) == ("runai-team-a", "default", 1, 1)
        quota = PoolQuota(node_pool="default", gpu_deserved=14000, gpu_limit=21000)
        asked = tenancy_pb2.SetProjectQuotaRequest(project="team-a", quota=quota, idempotency_key=key())
        changed = (await here.tenancy.SetProjectQuota(asked)).project
        assert (changed.version, list(changed.quotas)) == (2, [quota])
        await here.submit(name="w")
        await until(lambda: len(heard.events) == 3)
        told = {one.aggregate: one.message for one in heard.events}
        assert told["department/default"].department.name == "default"
        assert told["project/team-a"].project == changed

        assert (await refused(here.project())).code() is STATUS.ALREADY_EXISTS
        assert (await refused(here.project("other", namespace="runai-team-a"))).code() is STATUS.ALREADY_EXISTS
        wrong = await refused(
            here.project("Bad", namespace="kube-system", quotas=[PoolQuota(node_pool="", gpu_deserved=2, gpu_limit=1)])
        )
        assert violations(wrong).keys() == {"name", "namespace", "quotas.0.node_pool", "quotas.0.gpu_limit"}
        assert violations(await refused(here.project("c", department="sales"))).keys() == {"department"}
        asked.project, asked.idempotency_key = "ghost", key()
        assert (await refused(here.tenancy.SetProjectQuota(asked))).code() is STATUS.NOT_FOUND
        await here.project("team-b")
        page = await here.tenancy.ListProjects(tenancy_pb2.ListProjectsRequest(page_size=1))
        rest = tenancy_pb2.ListProjectsRequest(page_size=1, page_token=page.next_page_token)
        assert [one.name for one in (await here.tenancy.ListProjects(rest)).projects] == ["team-b"]


async def test_templates_are_layers(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        heard = Heard()
        here.scheduler.consume(heard, SUBMISSIONS, decoder=DECODER, assigned=True)
        await here.project()
        await here.template(project="", image="global")
        await here.submit(name="a", base_workload="base")
        own = await here.template(image="own")
        changed = await here.template(image="changed")
        assert (changed.id, changed.version) == (own.id, 2)
        await here.submit(name="b", base_workload="base")
        await until(lambda: len(heard.events) == 2)
        layers = {one.message.name: one.message for one in heard.events}
        assert layers["a"].base_spec.image == "global"
        assert (layers["b"].base_spec.image, layers["b"].template_id, layers["b"].template_version) == (
            "changed",
            own.id,
            2,
        )
        listed = await here.templates.ListTemplates(templates_pb2.ListTemplatesRequest(project="team-a"))
        assert [(one.project, one.spec.image) for one in listed.templates] == [("", "global"), ("team-a", "changed")]
        page = await here.templates.ListTemplates(templates_pb2.ListTemplatesRequest(page_size=1))
        rest = templates_pb2.ListTemplatesRequest(page_size=1, page_token=page.next_page_token)
        assert [one.project for one in (await here.templates.ListTemplates(rest)).templates] == ["team-a"]

        async def submit(**spec: Any) -> None:
            asked = api.SubmitWorkloadRequest(draft=draft(**spec), idempotency_key=key())
            await here.workloads.SubmitWorkload(asked)

        error = await refused(submit(name="c", base_workload="base", kind=options_pb2.KIND_WORKSPACE))
        assert "of kind TrainingWorkload" in violations(error)["spec.baseWorkload"]
        assert (await refused(submit(name="c", base_workload="ghost"))).code() is STATUS.NOT_FOUND
        error = await refused(submit(name="c", usage=wl.USAGE_TEMPLATE))
        assert "this is a template" in violations(error)["spec.usage"]
        asked = templates_pb2.ApplyTemplateRequest(
            draft=api.WorkloadDraft(project="team-a", spec=training(name_prefix="x", base_workload="base")),
            idempotency_key=key(),
        )
        assert violations(await refused(here.templates.ApplyTemplate(asked))).keys() == {
            "spec.namePrefix",
            "spec.baseWorkload",
        }
        await _templates_are_read_and_removed(here, changed)


async def _templates_are_read_and_removed(here: Door, known: templates_pb2.Template) -> None:
    heard = Heard()
    here.scheduler.consume(
        heard,
        TENANCY,
        decoder=MessageDecoder([submission_pb2.ProjectChanged, submission_pb2.TemplateChanged]),
        assigned=True,
    )
    assert (await here.template(image="changed")).version == known.version, "applied again it is the same"
    asked = templates_pb2.GetTemplateRequest(project="team-a", name="base")
    own = await here.templates.GetTemplate(asked)
    assert own.template == known
    again = api.WorkloadDraft(yaml=own.yaml)
    apply = templates_pb2.ApplyTemplateRequest(draft=again, idempotency_key=key())
    assert (await here.templates.ApplyTemplate(apply)).outcome == api.APPLY_OUTCOME_UNCHANGED
    gone = templates_pb2.DeleteTemplateRequest(project="team-a", name="base", idempotency_key=key())
    for _ in range(2):  # a repeated call is harmless
        await here.templates.DeleteTemplate(gone)
    await until(lambda: any(one.tombstone for one in heard.events if one.aggregate == f"template/{known.id}"))
    everywhere = await here.templates.GetTemplate(asked)
    assert (everywhere.template.project, "namespace: runai\n" in everywhere.yaml) == ("", True)
    gone.idempotency_key = key()
    assert (await refused(here.templates.DeleteTemplate(gone))).code() is STATUS.NOT_FOUND
    gone.project = ""
    gone.idempotency_key = key()
    await here.templates.DeleteTemplate(gone)
    assert (await refused(here.templates.GetTemplate(asked))).code() is STATUS.NOT_FOUND
    assert (await refused(here.templates.GetTemplate(templates_pb2.GetTemplateRequest()))).code() is (
        STATUS.INVALID_ARGUMENT
    )


async def test_only_a_service_changes_and_only_in_what_can_change(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        heard = Heard()
        here.scheduler.consume(heard, SUBMISSIONS, decoder=DECODER, assigned=True)
        await here.project()
        service: dict[str, Any] = {"kind": options_pb2.KIND_INFERENCE, "name": "serve", "image": "v1", "min_scale": 1}
        asked = api.SubmitWorkloadRequest(draft=draft(**service), idempotency_key=key())
        made = (await here.workloads.SubmitWorkload(asked)).workload

        async def update(workload: wl.Workload, **spec: Any) -> wl.Workload:
            wanted = api.UpdateWorkloadRequest(
                workload=api.WorkloadRef(id=workload.id), draft=draft(**spec), idempotency_key=key()
            )
            return (await here.workloads.UpdateWorkload(wanted)).workload

        same = await update(made, **service)
        assert same.generation == 1
        changed = await update(made, **(service | {"image": "v2"}))
        assert (changed.generation, changed.spec.image) == (2, "v2")
        await until(lambda: len(heard.events) == 2)
        assert heard.events[1].message.submitted.generation == 2
        assert heard.events[1].message.submitted.spec.image == "v2"

        fixed = await refused(update(made, **(service | {"active": False, "image": "v3"})))
        assert fixed.code() is STATUS.FAILED_PRECONDITION
        assert "active of serve cannot change" in (fixed.details() or "")
        assert violations(await refused(update(made, **(service | {"name": "other"})))).keys() == {"spec.name"}
        plain = await here.submit(name="w")
        fixed = await refused(update(plain, name="w", image="x"))
        assert fixed.code() is STATUS.FAILED_PRECONDITION
        assert "image of w cannot change: only inference services change" in (fixed.details() or "")
        other = await refused(update(made, **(service | {"kind": options_pb2.KIND_TRAINING, "min_scale": None})))
        assert violations(other).keys() == {"spec.kind"}

        # A refusal of the new generation changes neither the phase nor the effective spec.
        await here.admit(made)
        changed.generation = 2
        await here.decide(made.id, moved(wl.PHASE_RUNNING))
        await eventually(lambda: here.get(made.id), lambda one: one.phase == wl.PHASE_RUNNING)
        await eventually(lambda: here.get(made.id), lambda one: one.HasField("effective_spec"))
        await here.reject(changed, "no")
        now = await eventually(lambda: here.get(made.id), lambda one: bool(one.issues))
        assert (now.phase, now.effective_spec.image) == (wl.PHASE_RUNNING, "v1")


async def test_any_interleaving_ends_in_one_state(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        made = [await here.submit(name=f"w-{number}") for number in range(12)]
        steps = [placed(), moved(wl.PHASE_INITIALIZING), moved(wl.PHASE_RUNNING), moved(wl.PHASE_COMPLETED)]
        order = [(one, step) for one in made for step in [None, *range(4)]]
        random.Random(7).shuffle(order)
        taken = dict.fromkeys((one.id for one in made), 0)
        for one, step in order:
            if step is None:
                await here.admit(one)
            else:
                await here.decide(one.id, steps[taken[one.id]])
                taken[one.id] += 1

        async def look() -> list[wl.Workload]:
            return [await here.get(one.id) for one in made]

        done = await eventually(
            look, lambda seen: all(one.phase == wl.PHASE_COMPLETED and one.HasField("effective_spec") for one in seen)
        )
        assert all(one.HasField("finished_at") and one.cluster == "east" for one in done)


async def test_bytes_that_are_no_message_stop_nothing(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        made = await here.submit(name="w")
        producer = AIOKafkaProducer(bootstrap_servers=kafka)
        await producer.start()
        header = [
            ("ce_id", b"0190b0b0-0000-7000-8000-000000000001"),
            ("ce_type", b"muster.events.v1.PhaseChanged"),
            ("ce_subject", b"stranger"),
        ]
        await producer.send_and_wait(DECISIONS.name, b"\x00\xff\xff", key=b"x", headers=header)
        await producer.send_and_wait(DECISIONS.name, b"anything", key=b"x")
        await producer.stop()
        await here.decide("no-uuid", scheduler_pb2.WorkloadWaiting())
        odd = moved(wl.PHASE_RUNNING, reason=wl.Reason(code="Odd", message="nul \x00 inside"))
        odd.at.seconds = 1 << 60
        await here.decide(made.id, odd)
        now = await eventually(lambda: here.get(made.id), lambda one: one.phase == wl.PHASE_RUNNING)
        assert "\x00" not in now.reason.message

        async def letters() -> int:
            asked = dead_letters_pb2.ListDeadLettersRequest(service="submission")
            return len((await here.dead_letters.ListDeadLetters(asked)).dead_letters)

        assert await eventually(letters, lambda seen: seen == 3) == 3
        await here.decide("0190b0b0-0000-7000-8000-000000000009", moved(wl.PHASE_RUNNING))  # nobody of ours
        await here.decide(made.id, moved(wl.PHASE_COMPLETED))
        await eventually(lambda: here.get(made.id), lambda one: one.phase == wl.PHASE_COMPLETED)


async def test_usage_is_the_newest_account(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        one, two = await here.submit(name="one"), await here.submit(name="two")
        async with here.policy.database.unit() as unit:
            for workload, seconds, until_at in ((one, 10.0, 100), (two, 50.0, 100), (one, 5.0, 50)):
                message = telemetry_pb2.UsageAccounted(
                    workload_id=workload.id, project="team-a", name=workload.name, gpu_seconds=seconds
                )
                message.until.seconds = until_at
                unit.publish(ADVICE, workload.id, message)
                unit.publish(ADVICE, workload.id, telemetry_pb2.IdleSince(workload_id=workload.id))

        async def look() -> list[tuple[str, float]]:
            found = await here.usage.GetUsage(usage_pb2.GetUsageRequest(project="team-a"))
            return [(each.name, each.gpu_seconds) for each in found.workloads]

        await eventually(look, lambda seen: seen == [("two", 50.0), ("one", 10.0)])
        assert not (await here.usage.GetUsage(usage_pb2.GetUsageRequest(project="other"))).workloads


async def test_an_account_that_begins_again_is_added_to_the_earlier_ones(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        one = await here.submit(name="one")

        async def told(seconds: float, until_at: int, begun: str = "") -> None:
            message = telemetry_pb2.UsageAccounted(
                workload_id=one.id, project="team-a", name=one.name, gpu_seconds=seconds
            )
            message.until.seconds = until_at
            headers = {"muster_begun": begun} if begun else {}
            async with here.policy.database.unit() as unit:
                unit.publish(ADVICE, one.id, message, headers=headers, versioned=False)

        async def look() -> list[float]:
            found = await here.usage.GetUsage(usage_pb2.GetUsageRequest(project="team-a"))
            return [each.gpu_seconds for each in found.workloads]

        for given, shown in (
            ((100.0, 1_000), 100.0),  # of a release that does not say when it began
            ((110.0, 1_100, "500000000"), 110.0),  # it began before the use that is known
            ((5.0, 3_000, "2000000000"), 115.0),  # another one
            ((5.0, 3_000, "2000000000"), 115.0),  # and again
            ((110.0, 1_100, "500000000"), 115.0),  # late
            ((8.0, 3_100, "2000000000"), 118.0),
            ((2.0, 3_200, "3100000000"), 120.0),  # it begins with the last moment that is known
            ((3.0, 3_300, "no number"), 121.0),
            ((4.0, 3_400, "9" * 40), 122.0),
        ):
            await told(*given)
            await eventually(look, lambda seen, wanted=shown: seen == [wanted])  # type: ignore[misc]


class Leader(fleet_pb2_grpc.FleetServiceServicer):
    """A scheduler that answers, or says that it is the standby."""

    def __init__(self, *, leads: bool) -> None:
        self.leads = leads
        self.asked = 0

    async def ListClusters(self, request: Any, context: Any) -> fleet_pb2.ListClustersResponse:
        self.asked += 1
        if not self.leads:
            await context.abort(STATUS.UNAVAILABLE, "this instance follows")
        return fleet_pb2.ListClustersResponse(next_page_token="from the leader")

    async def AdoptCluster(self, request: Any, context: Any) -> fleet_pb2.AdoptClusterResponse:
        await context.abort(STATUS.NOT_FOUND, "cluster ghost is not registered")
        raise AssertionError("abort raises")

    async def LeaveCluster(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def RegisterCluster(self, request: Any, context: Any) -> fleet_pb2.RegisterClusterResponse:
        return fleet_pb2.RegisterClusterResponse()

    async def ListNodes(self, request: Any, context: Any) -> fleet_pb2.ListNodesResponse:
        return fleet_pb2.ListNodesResponse()

    async def ListAccounts(self, request: Any, context: Any) -> fleet_pb2.ListAccountsResponse:
        return fleet_pb2.ListAccountsResponse()

    async def ListQuarantine(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ReleaseQuarantine(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ForceGoneNode(self, request: Any, context: Any) -> fleet_pb2.ForceGoneNodeResponse:
        return fleet_pb2.ForceGoneNodeResponse()

    async def OrderNode(self, request: Any, context: Any) -> fleet_pb2.OrderNodeResponse:
        return fleet_pb2.OrderNodeResponse()

    async def SetNodeLayout(self, request: Any, context: Any) -> fleet_pb2.SetNodeLayoutResponse:
        return fleet_pb2.SetNodeLayoutResponse()


async def serve(leader: Leader) -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server()
    fleet_pb2_grpc.add_FleetServiceServicer_to_server(leader, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"


async def test_questions_are_passed_on(database: Any, kafka: str) -> None:
    standby, leading = Leader(leads=False), Leader(leads=True)
    one, there = await serve(standby)
    two, here_too = await serve(leading)
    silent = f"127.0.0.1:{free_port()}"
    addresses = {"scheduler_address": f"{there},{here_too}", "policy_address": silent}
    async with door(database, kafka, **addresses) as here:
        for _ in range(2):
            found = await here.fleet.ListClusters(fleet_pb2.ListClustersRequest())
            assert found.next_page_token == "from the leader"
        assert (standby.asked, leading.asked) == (1, 2)  # who answered is asked first
        gone = await refused(here.fleet.AdoptCluster(fleet_pb2.AdoptClusterRequest(cluster="ghost")))
        assert (gone.code(), gone.details()) == (STATUS.NOT_FOUND, "cluster ghost is not registered")
        asked = policies_pb2.GetEffectivePolicyRequest(project="team-a")
        down = await refused(here.policies.GetEffectivePolicy(asked, timeout=3))
        assert down.code() is STATUS.UNAVAILABLE
        assert f"policy does not answer at {silent}" in (down.details() or "")
        letters = await here.dead_letters.ListDeadLetters(dead_letters_pb2.ListDeadLettersRequest(), timeout=5)
        assert sorted(letters.unanswered) == ["policy", "scheduler"]  # this scheduler serves no dead letters
        unknown = await refused(here.explain.Why(explain_pb2.WhyRequest(project="team-a", name="ghost")))
        assert unknown.code() is STATUS.NOT_FOUND
    await one.stop(0)
    await two.stop(0)


async def test_a_restart_goes_on_where_it_was(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        made = await here.submit(name="w")
        await here.admit(made)
        await eventually(lambda: here.get(made.id), lambda one: one.HasField("effective_spec"))
    async with door(database, kafka) as here:
        await here.decide(made.id, placed())
        now = await eventually(lambda: here.get(made.id), lambda one: one.cluster == "east")
        assert now.HasField("effective_spec")
        assert (await refused(here.project())).code() is STATUS.ALREADY_EXISTS
