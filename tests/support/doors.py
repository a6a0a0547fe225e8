"""Submission in this process, on the real Kafka and PostgreSQL, with others who speak as policy and scheduler do.

Called by submission's integration tests. A `Door` is the service as its composition root makes it, a channel to it, and
two stations that publish verdicts and decisions. Holds: all of it is closed with the block.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
from aiokafka import AIOKafkaProducer
from google.rpc.error_details_pb2 import BadRequest
from grpc_status import rpc_status
from pydantic import SecretStr

from muster.api.v1 import (
    access_pb2,
    access_pb2_grpc,
    agent_gateway_pb2_grpc,
    cluster_agents_pb2_grpc,
    dead_letters_pb2_grpc,
    explain_pb2_grpc,
    fleet_pb2_grpc,
    policies_pb2_grpc,
    templates_pb2,
    templates_pb2_grpc,
    tenancy_pb2,
    tenancy_pb2_grpc,
    triggers_pb2_grpc,
    usage_pb2_grpc,
    workloads_pb2,
    workloads_pb2_grpc,
)
from muster.events.v1 import policy_pb2, scheduler_pb2
from muster.options.v1 import options_pb2
from muster.tenancy.v1 import tenancy_pb2 as tenancy
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.broker import Broker, Security
from muster_chassis.rpc import channel
from muster_chassis.runtime import Runtime
from muster_chassis.settings import AuthMode
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import ADMISSIONS, DECISIONS, FIXED, TRIGGERS
from muster_submission.app import compose
from muster_submission.app_parts import Application
from muster_submission.settings import SubmissionSettings
from tests.support.identities import service_key
from tests.support.processes import free_port
from tests.support.stations import Station, station

WORKLOADS = workloads_pb2_grpc.WorkloadsServiceStub
PROJECT = "team-a"


@dataclass
class Door:
    """The running service and those around it."""

    app: Application
    channel: grpc.aio.Channel
    policy: Station
    scheduler: Station
    kafka: str
    http: httpx.AsyncClient
    """The REST API: `await door.http.get("/api/v1/..")`."""

    def __post_init__(self) -> None:
        """The stubs of everything that is served."""
        self._agent: tuple[tuple[str, str], ...] = ()
        self.workloads = workloads_pb2_grpc.WorkloadsServiceStub(self.channel)
        self.tenancy = tenancy_pb2_grpc.TenancyServiceStub(self.channel)
        self.templates = templates_pb2_grpc.TemplatesServiceStub(self.channel)
        self.triggers = triggers_pb2_grpc.TriggersServiceStub(self.channel)
        self.fleet = fleet_pb2_grpc.FleetServiceStub(self.channel)
        self.explain = explain_pb2_grpc.ExplainServiceStub(self.channel)
        self.policies = policies_pb2_grpc.PoliciesServiceStub(self.channel)
        self.usage = usage_pb2_grpc.UsageServiceStub(self.channel)
        self.dead_letters = dead_letters_pb2_grpc.DeadLettersServiceStub(self.channel)
        self.access = access_pb2_grpc.AccessServiceStub(self.channel)
        self.tokens = access_pb2_grpc.TokenServiceStub(self.channel)
        self.gateway = agent_gateway_pb2_grpc.AgentGatewayServiceStub(self.channel)
        self.cluster_agents = cluster_agents_pb2_grpc.ClusterAgentsServiceStub(self.channel)

    async def agent_metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of an agent's calls, where people need no token: it has an application of its own."""
        if not self._agent:
            self._agent = await self._agent_metadata()
        return self._agent

    async def _agent_metadata(self) -> tuple[tuple[str, str], ...]:
        made = await self.access.CreateApplication(access_pb2.CreateApplicationRequest(name=f"agents-{key()[:8]}"))
        rule = access_pb2.AccessRule(
            holder_kind="application", holder=made.application.id, role="cluster-agent", scope_kind="tenant"
        )
        await self.access.GrantRole(access_pb2.GrantRoleRequest(rule=rule, idempotency_key=key()))
        asked = access_pb2.IssueTokenRequest(application=made.application.id, secret=made.secret)
        return (("authorization", f"Bearer {(await self.tokens.IssueToken(asked)).access_token}"),)

    async def project(self, name: str = PROJECT, **more: Any) -> tenancy.Project:
        """Makes a project."""
        asked = tenancy_pb2.CreateProjectRequest(name=name, idempotency_key=key(), **more)
        return (await self.tenancy.CreateProject(asked)).project

    async def template(self, name: str = "base", *, project: str = PROJECT, **spec: Any) -> templates_pb2.Template:
        """Makes a template of kind Training; a global one where the project is empty."""
        draft = workloads_pb2.WorkloadDraft(project=project, spec=training(name=name, usage=wl.USAGE_TEMPLATE, **spec))
        asked = templates_pb2.ApplyTemplateRequest(draft=draft, idempotency_key=key(), **{"global": not project})
        return (await self.templates.ApplyTemplate(asked)).template

    async def submit(self, *, wait: int = 0, idempotency: str = "", **spec: Any) -> wl.Workload:
        """Submits a training."""
        asked = workloads_pb2.SubmitWorkloadRequest(
            draft=draft(**spec), idempotency_key=idempotency or key(), wait_for_verdict_ms=wait
        )
        return (await self.workloads.SubmitWorkload(asked)).workload

    async def get(self, workload_id: str) -> wl.Workload:
        """The workload as the read model has it."""
        asked = workloads_pb2.GetWorkloadRequest(workload=workloads_pb2.WorkloadRef(id=workload_id))
        return (await self.workloads.GetWorkload(asked)).workload

    async def admit(self, *workloads: wl.Workload, **spec: Any) -> None:
        """What policy says of workloads that it takes."""
        async with self.policy.database.unit() as unit:
            for one in workloads:
                effective = wl.WorkloadSpec()
                effective.CopyFrom(one.spec)
                effective.MergeFrom(wl.WorkloadSpec(**spec))
                message = policy_pb2.WorkloadAdmitted(
                    workload_id=one.id, generation=one.generation, effective_spec=effective
                )
                unit.publish(ADMISSIONS, one.id, message)

    async def reject(self, one: wl.Workload, *issues: str) -> None:
        """What policy says of a workload that it refuses."""
        async with self.policy.database.unit() as unit:
            message = policy_pb2.WorkloadRejected(workload_id=one.id, generation=one.generation)
            for issue in issues:
                message.issues.add(path="compute.gpuDevicesRequest", rule="max", details=issue)
            unit.publish(ADMISSIONS, one.id, message)

    async def decide(self, workload_id: str, *messages: Any) -> None:
        """What the scheduler says of a workload, in one transaction."""
        async with self.scheduler.database.unit() as unit:
            for message in messages:
                message.workload_id = workload_id
                unit.publish(DECISIONS, workload_id, message)

    async def events(self, *events: tuple[bytes | None, list[tuple[str, bytes]]]) -> None:
        """Records of strangers on muster.triggers, as (value, headers)."""
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka)
        await producer.start()
        try:
            for value, headers in events:
                await producer.send_and_wait(TRIGGERS.name, value, key=b"", headers=headers)
        finally:
            await producer.stop()


def key() -> str:
    """A new idempotency key."""
    return str(uuid.uuid4())


def training(**spec: Any) -> wl.WorkloadSpec:
    """A training of one command."""
    given: dict[str, Any] = {"kind": options_pb2.KIND_TRAINING, "command": "true"}
    return wl.WorkloadSpec(**(given | spec))


def draft(project: str = PROJECT, **spec: Any) -> workloads_pb2.WorkloadDraft:
    """A draft of a training."""
    return workloads_pb2.WorkloadDraft(project=project, spec=training(**spec))


def moved(to: wl.Phase.ValueType, *, attempt: int = 1, **more: Any) -> scheduler_pb2.PhaseChanged:
    """A phase as the scheduler says it."""
    message = scheduler_pb2.PhaseChanged(generation=1, attempt=attempt, to=to, desired=wl.DESIRED_PHASE_RUNNING, **more)
    message.at.GetCurrentTime()
    return message


def placed(cluster: str = "east", **more: Any) -> scheduler_pb2.WorkloadPlaced:
    """A place as the scheduler gives it."""
    return scheduler_pb2.WorkloadPlaced(generation=1, attempt=1, cluster=cluster, node_pool="default", **more)


def violations(error: grpc.aio.AioRpcError) -> dict[str, str]:
    """The field violations of an error: field to description."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # takes an aio error as well
    found = BadRequest()
    for detail in status.details if status else ():
        if detail.Unpack(found):
            return {one.field: one.description for one in found.field_violations}
    return {}


def settings(database: Any, kafka: str, *, instance: str = "submission-0", **more: Any) -> SubmissionSettings:
    """Settings of a service of a test."""
    given: dict[str, Any] = {"auth": AuthMode.OFF} | more
    return SubmissionSettings(
        instance=instance,
        kafka_bootstrap=kafka,
        kafka_security=Security.PLAINTEXT,
        metrics_listen="127.0.0.1:0",
        database_url=SecretStr(database.url("submission")),
        database_schema="submission",
        grpc_listen=f"127.0.0.1:{free_port()}",
        rest_listen=f"127.0.0.1:{free_port()}",
        service_key_file=service_key(),
        **given,
    )


@asynccontextmanager
async def running(configured: SubmissionSettings) -> AsyncIterator[Application]:
    """Submission alone, stopped in order at the end."""
    runtime = Runtime(configured)
    app = await compose(runtime, configured)
    living = asyncio.create_task(runtime.live())
    try:
        yield app
    finally:
        runtime.stopping.set()
        await living


@asynccontextmanager
async def door(database: Any, kafka: str, **more: Any) -> AsyncIterator[Door]:
    """Submission with everything around it."""
    await create_topics(Broker(kafka), FIXED, client="tests")
    configured = settings(database, kafka, **more)
    async with AsyncExitStack() as stack:
        policy = await stack.enter_async_context(station("policy", database.url("policy"), kafka))
        scheduler = await stack.enter_async_context(station("scheduler", database.url("scheduler"), kafka))
        policy.relay()
        scheduler.relay()
        app = await stack.enter_async_context(running(configured))
        opened = await stack.enter_async_context(channel(configured.grpc_listen))
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://{configured.rest_listen}", timeout=30)
        )
        yield Door(app, opened, policy, scheduler, kafka, http)


@asynccontextmanager
async def second(first: Door, database: Any, **more: Any) -> AsyncIterator[Door]:
    """Another instance of submission beside the first one, with the same others around it."""
    configured = settings(database, first.kafka, instance="submission-1", **more)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(running(configured))
        opened = await stack.enter_async_context(channel(configured.grpc_listen))
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://{configured.rest_listen}", timeout=30)
        )
        yield Door(app, opened, first.policy, first.scheduler, first.kafka, http)
