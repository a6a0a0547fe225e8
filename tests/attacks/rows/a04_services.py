"""A4: a process on this machine calls the services behind submission, which judge no person."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import grpc
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from muster.api.v1 import agent_gateway_pb2, dead_letters_pb2, explain_pb2, fleet_pb2, refused_calls_pb2
from muster.api.v1.agent_gateway_pb2_grpc import AgentGatewayServiceStub
from muster.api.v1.dead_letters_pb2_grpc import DeadLettersServiceStub
from muster.api.v1.explain_pb2_grpc import ExplainServiceStub
from muster.api.v1.fleet_pb2_grpc import FleetServiceStub
from muster.api.v1.refused_calls_pb2_grpc import RefusedCallsServiceStub
from muster_chassis.key_files import PrivateKey, read_private
from muster_chassis.rpc import ServiceIdentity, ServiceName, channel
from muster_stack import identities
from tests.attacks.attack import Actor, Attack, StackKind, Verdict, broken, held
from tests.attacks.stage import Stage

_SECONDS: Final = 5.0
_REFUSALS: Final = 300
_LINES: Final = 30  # far more than the few callers of a quiet stack bring about in a minute
_LOOKS: Final = 8  # submission asks every 5 seconds
_PROOF: Final = "tests/rules/test_attacks_keys.py::test_without_the_gate_any_local_process_commands_the_scheduler"
_REFUSED: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
Metadata = Sequence[tuple[str, str]]


async def _register(stage: Stage, metadata: Metadata, where: str = "scheduler.grpc") -> Verdict:
    """Makes a cluster that no administrator made."""
    name = f"forged-{uuid.uuid4().hex[:8]}"
    asked = fleet_pb2.RegisterClusterRequest(cluster=name, idempotency_key=name)
    async with channel(stage.services[where]) as opened:
        try:
            await FleetServiceStub(opened).RegisterCluster(asked, metadata=metadata, timeout=_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _REFUSED:
                return broken(f"RegisterCluster was not refused for who called: {error.code().name}")
            return held(f"RegisterCluster: {error.code().name}")
    return broken(f"cluster {name} was registered")


async def _without_a_token(stage: Stage) -> Verdict:
    return await _register(stage, ())


async def _with_a_users_token(stage: Stage) -> Verdict:
    """A real token of Muster's own: it is for submission, whose caller has to be judged there."""
    return await _register(stage, tuple(stage.headers(Actor.PROJECT_ADMIN).items()))


async def _with_a_key_of_its_own(stage: Stage) -> Verdict:
    """A token that says `submission`, signed with a key that the attacker made."""
    claims = {
        "iss": "muster/service/submission",
        "sub": "submission",
        "aud": "muster/service/scheduler",
        "exp": 4_000_000_000,
    }
    token = jwt.encode(claims, Ed25519PrivateKey.generate(), algorithm="EdDSA")
    return await _register(stage, (("authorization", f"Bearer {token}"),))


async def _with_another_audience(stage: Stage) -> Verdict:
    """A real token of submission that went to policy, as policy could send it on."""
    key = PrivateKey(identities.service_key(stage.layout, ServiceName.SUBMISSION), read_private)
    return await _register(stage, ServiceIdentity(ServiceName.SUBMISSION, key).metadata("policy"))


async def _tried(call: Callable[[], Awaitable[object]], what: str) -> Verdict:
    try:
        answer = await call()
    except grpc.aio.AioRpcError as error:
        if error.code() in _REFUSED:
            return held(f"{what}: {error.code().name}")
        return broken(f"{what} reached the service: {error.code().name}")
    return broken(f"{what} was answered: {str(answer)[:80]}")


async def _why(stage: Stage) -> Verdict:
    """Asks about a workload of a project in which the caller has no role."""
    asked = explain_pb2.WhyRequest(project=stage.other_project, name="victim")
    async with channel(stage.services["scheduler.grpc"]) as opened:
        return await _tried(
            lambda: ExplainServiceStub(opened).Why(asked, timeout=_SECONDS), "Why of a foreign workload"
        )


async def _force_gone(stage: Stage) -> Verdict:
    """Declares a node gone, which frees devices on which processes still run."""
    asked = fleet_pb2.ForceGoneNodeRequest(cluster="alpha", node="no-such-node", idempotency_key=str(uuid.uuid4()))
    async with channel(stage.services["scheduler.grpc"]) as opened:
        return await _tried(lambda: FleetServiceStub(opened).ForceGoneNode(asked, timeout=_SECONDS), "ForceGoneNode")


async def _dead_letters(stage: Stage) -> Verdict:
    """Reads the dead letters of telemetry, whose values are other people's records."""
    asked = dead_letters_pb2.ListDeadLettersRequest()
    async with channel(stage.services["telemetry.grpc"]) as opened:
        return await _tried(
            lambda: DeadLettersServiceStub(opened).ListDeadLetters(asked, timeout=_SECONDS), "ListDeadLetters"
        )


async def _credentials(stage: Stage) -> Verdict:
    """Asks for the credentials of a workload as an agent does, on a stack where people need no token."""
    asked = agent_gateway_pb2.FetchSecretsRequest(cluster="alpha", workload_id=str(uuid.uuid4()))
    async with channel(stage.grpc) as opened:
        return await _tried(
            lambda: AgentGatewayServiceStub(opened).FetchSecrets(asked, timeout=_SECONDS), "FetchSecrets"
        )


async def _fill_the_audit(stage: Stage) -> Verdict:
    """Has calls refused at full speed, so that the audit, which is kept for good, grows with each."""
    began = datetime.now(UTC)
    asked = refused_calls_pb2.TakeRefusedCallsRequest()
    async with channel(stage.services["scheduler.grpc"]) as opened:
        stub = RefusedCallsServiceStub(opened)
        for _ in range(_REFUSALS):
            tried = await _tried(lambda: stub.TakeRefusedCalls(asked, timeout=_SECONDS), "TakeRefusedCalls")
            if not tried.held:
                return tried
    lines = 0
    async with stage.admin() as muster:
        for _ in range(_LOOKS):
            await asyncio.sleep(1)
            lines = len([line async for line in muster.access.audit(since=began, what="services.call")])
            if lines > _LINES:
                return broken(f"{_REFUSALS} refused calls are {lines} lines of the audit or more")
    return held(f"{_REFUSALS} refused calls are {lines} lines of the audit")


AUDIT: Final = Attack(
    "A4",
    "fill-the-audit-with-refused-calls",
    Actor.LOOPBACK,
    _fill_the_audit,
    "tests/rules/test_attacks_keys.py::test_with_a_line_for_each_refused_call_anyone_fills_the_audit",
)
GATEWAY: Final = Attack(
    "A4",
    "fetch-credentials-as-an-agent",
    Actor.LOOPBACK,
    _credentials,
    "tests/rules/test_attacks_keys.py::test_without_the_agents_token_any_local_process_asks_for_credentials",
    StackKind.OPEN,
)
ATTACKS: Final = (
    AUDIT,
    GATEWAY,
    Attack("A4", "register-cluster-without-a-token", Actor.LOOPBACK, _without_a_token, _PROOF),
    Attack("A4", "register-cluster-on-the-open-stack", Actor.LOOPBACK, _without_a_token, _PROOF, StackKind.OPEN),
    Attack("A4", "register-cluster-with-a-users-token", Actor.PROJECT_ADMIN, _with_a_users_token, _PROOF),
    Attack("A4", "register-cluster-with-a-forged-key", Actor.LOOPBACK, _with_a_key_of_its_own, _PROOF),
    Attack("A4", "register-cluster-with-a-token-for-policy", Actor.LOOPBACK, _with_another_audience, _PROOF),
    Attack("A4", "why-of-a-foreign-workload", Actor.LOOPBACK, _why, _PROOF),
    Attack("A4", "force-gone-without-a-token", Actor.LOOPBACK, _force_gone, _PROOF),
    Attack("A4", "dead-letters-without-a-token", Actor.LOOPBACK, _dead_letters, _PROOF),
)
