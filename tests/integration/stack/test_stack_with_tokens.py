"""A stack that asks for tokens: its administrator lets others in, and its agents work with a login of their own."""

from __future__ import annotations

import stat

import grpc
import pytest

from muster.api.v1 import access_pb2, access_pb2_grpc
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_client import Muster
from muster_client.errors import NotAllowed, NotFound, Unauthenticated
from muster_stack import credentials
from muster_stack.embedded import temporary_stack
from muster_stack.keeper.control import Stack
from tests.support.waiting import eventually

_CLUSTER = "cluster: north\nnodes: [{name: n-0}]\n"


def _spec(name: str) -> wl.WorkloadSpec:
    return wl.WorkloadSpec(kind=options_pb2.KIND_TRAINING, name=name, image="x", command="sh -c 'echo it ran'")


async def _let_in(admin: Muster, address: str, role: str, project: str) -> str:
    """A token of a new application with that role."""
    made = await admin.applications.create(f"{role}-{project}")
    rule = access_pb2.AccessRule(
        holder_kind="application", holder=made.application.id, role=role, scope_kind="project", scope=project
    )
    await admin.access.grant(rule)
    return await _token(address, made.application.id, made.secret)


async def _token(address: str, client: str, secret: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        request = access_pb2.IssueTokenRequest(application=client, secret=secret)
        return str((await access_pb2_grpc.TokenServiceStub(channel).IssueToken(request)).access_token)


async def test_nobody_gets_in_without_a_token_and_everything_works_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary_stack(auth=True, clusters={"north": _CLUSTER}) as stack:
        address = _address(stack)
        first = credentials.administrator(stack.layout)
        assert stat.S_IMODE(first.stat().st_mode) == 0o600
        assert stack.status()["application"] == str(first)
        async with Muster(address) as nobody:
            with pytest.raises(Unauthenticated):
                await nobody.access.who_am_i()
        monkeypatch.setenv("MUSTER_HOME", str(stack.layout.root))
        async with Muster() as admin:
            assert (await admin.access.who_am_i()).subject_name == "admin"
            for name in ("vision", "web"):
                await admin.projects.create(name)
            researcher = await _let_in(admin, address, "researcher", "vision")
            viewer = await _let_in(admin, address, "viewer", "vision")
            stranger = await _let_in(admin, address, "researcher", "web")
        async with Muster(address, researcher) as muster:
            made = await muster.submit(_spec("first"), project="vision")
            done = await muster.wait(made.id, timeout=60)
            assert done.phase == wl.PHASE_COMPLETED
            log = b"".join([piece.data async for piece in muster.logs(made.id)])
            assert log == b"it ran\n"
        async with Muster(address, viewer) as muster:
            assert (await muster.get(made.id)).name == "first"
            with pytest.raises(NotAllowed):
                await muster.delete(made.id)
        async with Muster(address, stranger) as muster:
            with pytest.raises(NotFound):
                await muster.get(made.id)
            assert [one async for one in muster.list()] == []
        async with Muster() as admin:
            await eventually(lambda: _all_is_told(admin))


async def _all_is_told(admin: Muster) -> bool:
    """Whether the audit has what was done and what was refused, which comes a moment later."""
    lines = [line async for line in admin.access.audit(what="workloads")]
    return {(line.verb, line.outcome) for line in lines} >= {
        ("workloads.create", "done"),
        ("workloads.delete", "PERMISSION_DENIED"),
        ("workloads.read", "NOT_FOUND"),
    }


def _address(stack: Stack) -> str:
    return str(stack.status()["services"]["submission"]["grpc"])
