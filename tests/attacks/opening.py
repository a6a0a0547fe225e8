"""Opens a stack for attacks and lets its actors in.

Called by `tests/attacks/run.py` and `tests/benchmarks/isolation.py`. Holds: every actor has an application with one
role; the other tenants have projects, roles and tokens of their own, so that each is its own caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from muster.api.v1 import access_pb2, access_pb2_grpc, triggers_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client import Muster, Phase
from muster_client.login import read_application
from muster_client.quotas import pool_quota
from muster_stack import credentials
from muster_stack.bus.identities import Identities, client_options
from tests.attacks.attack import Actor, StackKind
from tests.attacks.stage import Stage, python
from tests.attacks.tenants import Tenant
from tests.support.stacks import RunningStack, running_stack

PROJECT: Final = "vision"
OTHER: Final = "secret-lab"
TENANTS: Final = ("tenant-a", "tenant-b", "tenant-c")
VICTIM_SECRET: Final = "the-victims-own-secret"
_ROLES: Final = {Actor.VIEWER: "viewer", Actor.RESEARCHER: "researcher", Actor.PROJECT_ADMIN: "project-admin"}
_NODES: Final = {"alpha": 4, "beta": 1}
_START_SECONDS: Final = 60.0
_TEMPLATE: Final = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {name: tick}
spec:
  image: {value: python}
  command: {value: "true"}
"""
_VICTIM: Final = "import time; time.sleep(3600)"


@dataclass(frozen=True, slots=True)
class Opened:
    """A stack with its stage and the tenants that have nothing to do with the attack."""

    stage: Stage
    tenants: tuple[Tenant, ...]


@contextmanager
def stack_of(kind: StackKind, folder: Path) -> Iterator[RunningStack]:
    """One stack with two clusters, of four nodes and of one; its data stays in `folder`."""
    clusters = {name: declaration(name, nodes) for name, nodes in _NODES.items()}
    with running_stack(folder, clusters, auth=kind is StackKind.AUTH) as stack:
        yield stack


def declaration(name: str, nodes: int) -> str:
    """The cluster file: nodes of eight devices."""
    devices = "{count: 8, model: A100-40GB, memory: 40Gi}"
    lines = [f"  - {{name: {name}-{n}, cpu: 64, memory: 256Gi, devices: {devices}}}" for n in range(nodes)]
    return "\n".join([f"cluster: {name}", "nodes:", *lines, ""])


async def open_stage(stack: RunningStack, kind: StackKind) -> Opened:
    """Makes projects, actors and tenants; the victim's workload runs when this returns."""
    client, secret = read_application(credentials.administrator(stack.layout))
    admin_token = await token_of(stack.server, client, secret) if kind is StackKind.AUTH else ""
    async with Muster(stack.server, admin_token or None) as admin:
        for project in (PROJECT, OTHER, *TENANTS):
            await admin.projects.create(project, quotas=[pool_quota("default", 4)])
        actors = await _actors(admin, stack.server) if kind is StackKind.AUTH else {}
        tenants = [await _tenant(admin, stack, project, kind) for project in TENANTS]
        await _start_victim(admin)
    services = stack.stack.status()["services"]
    stage = Stage(
        folder=str(stack.layout.root),
        grpc=stack.server,
        rest=services["submission"]["rest"],
        bootstrap=stack.bootstrap,
        services={
            f"{name}.{key}": row[key] for name, row in services.items() for key in ("grpc", "metrics") if key in row
        },
        tokens=actors,
        project=PROJECT,
        other_project=OTHER,
        admin_token=admin_token,
        notes={"victim_secret": VICTIM_SECRET},
    )
    return Opened(stage, tuple(tenants))


async def token_of(address: str, application: str, secret: str) -> str:
    """A token of an hour for an application."""
    async with grpc.aio.insecure_channel(address) as channel:
        request = access_pb2.IssueTokenRequest(application=application, secret=secret)
        return str((await access_pb2_grpc.TokenServiceStub(channel).IssueToken(request)).access_token)


async def _actors(admin: Muster, address: str) -> dict[Actor, str]:
    tokens = {actor: await _let_in(admin, address, actor.value, role, PROJECT) for actor, role in _ROLES.items()}
    stranger = await admin.applications.create(Actor.NO_ROLE.value)
    return {**tokens, Actor.NO_ROLE: await token_of(address, stranger.application.id, stranger.secret)}


async def _let_in(admin: Muster, address: str, name: str, role: str, project: str) -> str:
    made = await admin.applications.create(name)
    rule = access_pb2.AccessRule(
        holder_kind="application", holder=made.application.id, role=role, scope_kind="project", scope=project
    )
    await admin.access.grant(rule)
    return await token_of(address, made.application.id, made.secret)


async def _tenant(admin: Muster, stack: RunningStack, project: str, kind: StackKind) -> Tenant:
    token = await _let_in(admin, stack.server, project, "project-admin", project) if kind is StackKind.AUTH else ""
    async with Muster(stack.server, token or None) as muster:
        await muster.templates.apply(_TEMPLATE, project=project)
        trigger = triggers_pb2.Trigger(
            name="tick",
            project=project,
            template="tick",
            event_type=f"{project}.tick",
            event_sources=["*"],
            enabled=True,
            condition="event.subject != ''",
        )
        await muster.triggers.apply(trigger)
    user = stack.stack.grant_producer("muster.triggers", project)
    identity = Identities(stack.layout.bus_identities).of(user)
    return Tenant(project, stack.server, token, client_options(stack.bootstrap, identity))


async def _start_victim(admin: Muster) -> None:
    spec = workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING, name="victim", image="python", command=python(_VICTIM)
    )
    spec.environment.add(label="VICTIM_SECRET", value=VICTIM_SECRET)
    made = await admin.submit(spec, project=OTHER)
    await admin.wait(made.id, phases=[Phase.RUNNING], timeout=_START_SECONDS)
