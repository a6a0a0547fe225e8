"""Every way in gives every caller the answer of the domain's tables: verb x role x scope, on gRPC, REST, Kubernetes.

The calls stand in tests/support/access_calls.py; what is expected of each comes from the domain.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import grpc
import httpx
import jwt
import pytest

from muster.api.v1 import (
    access_pb2,
    agent_gateway_pb2,
    tenancy_pb2,
)
from muster.api.v1 import workloads_pb2 as api
from muster_chassis.health import Health
from muster_submission.adapters.exporting import Exporter
from muster_submission.domain.access import Answer, Grants, Verb
from muster_submission.handlers.archiving import Archiving, Plan
from tests.support.access_calls import (
    CALLERS,
    DEPARTMENTS,
    K8S,
    PATHS,
    RPCS,
    SECRET,
    SERVICES,
    VISION,
    House,
    grants_of,
    house,
    submit,
)
from tests.support.doors import draft, key


async def _bulk(here: House, who: str, expected: Answer) -> list[str]:
    """A bulk call answers for each draft; the codes are those of a single one."""
    drafts = [draft("vision", name="seen"), draft("none", name="x")]
    asked = api.SubmitWorkloadsRequest(drafts=drafts, idempotency_key=key())
    first, second = (await here.door.workloads.SubmitWorkloads(asked, metadata=here.metadata(who))).outcomes
    answer = {5: Answer.HIDDEN, 7: Answer.FORBIDDEN}.get(first.code, Answer.ALLOWED)
    assert second.code == 5, "a project that does not exist"
    return [] if answer is expected else [f"bulk by {who}: {answer.value}, expected {expected.value}"]


_CODES: Final = {grpc.StatusCode.NOT_FOUND: Answer.HIDDEN, grpc.StatusCode.PERMISSION_DENIED: Answer.FORBIDDEN}


async def _grpc_answer(call: Awaitable[Any]) -> Answer:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        assert error.code() not in {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAUTHENTICATED}, error.details()
        return _CODES.get(error.code(), Answer.ALLOWED)
    return Answer.ALLOWED


async def _http_answer(here: House, who: str, method: str, path: str, body: Any) -> Answer:
    at = path.format(seen=here.seen.id, project=here.project)
    answer = await here.door.http.request(method, at, json=body, headers=here.headers(who))
    assert answer.status_code not in {401, 500, 405, 501}, answer.text
    return {404: Answer.HIDDEN, 403: Answer.FORBIDDEN}.get(answer.status_code, Answer.ALLOWED)


async def test_every_channel_answers_as_the_tables_say(database: Any, kafka: str, tmp_path: Path) -> None:
    wrong = []
    async with house(database, kafka, tmp_path) as here:
        await _archive_one_of_each_project(here)
        for who in [*CALLERS, "nobody"]:
            grants = grants_of(who)
            for rpc in RPCS:
                expected = grants.judge(rpc.verb, rpc.place)
                answer = await _grpc_answer(rpc.call(here, who))
                if answer is not expected:
                    wrong.append(f"gRPC {rpc.name} by {who}: {answer.value}, expected {expected.value}")
            wrong.extend(await _bulk(here, who, grants.judge(Verb.WORKLOADS_CREATE, VISION)))
            for method, path, body, verb, place in PATHS:
                expected = grants.judge(verb, place)
                answer = await _http_answer(here, who, method, path, body)
                if answer is not expected:
                    wrong.append(f"{method} {path} by {who}: {answer.value}, expected {expected.value}")
            wrong.extend(await _lists(here, who, grants))
    assert not wrong, "\n".join(wrong)


async def _archive_one_of_each_project(here: House) -> None:
    app = here.door.app
    for project in DEPARTMENTS:
        asked = api.SubmitWorkloadRequest(draft=draft(project, name="over"), idempotency_key=key())
        await here.door.workloads.SubmitWorkload(asked, metadata=here.metadata("system-admin@tenant"))
    await app.database.pool.execute("UPDATE workloads SET ended = true, finished_at = now() WHERE name = 'over'")
    exporter = Exporter(app.database.pool)
    await Archiving(app.database, app.archive, exporter.month, Plan(timedelta(0)), Health()).round()


async def _lists(here: House, who: str, grants: Grants) -> list[str]:
    """Lists, counts and watches show what is in the projects in view and nothing else."""
    seen = grants.projects(Verb.WORKLOADS_READ)
    expected = {name for name in DEPARTMENTS if seen is None or name in seen}
    metadata, headers = here.metadata(who), here.headers(who)
    listed = (await here.door.workloads.ListWorkloads(api.ListWorkloadsRequest(), metadata=metadata)).workloads
    found: dict[str, Any] = {"gRPC list": {one.project for one in listed}}
    over = await here.door.workloads.ListArchivedWorkloads(api.ListArchivedWorkloadsRequest(), metadata=metadata)
    found["archive"] = {one.project for one in over.workloads}
    watch = here.door.workloads.WatchWorkloads(api.WatchWorkloadsRequest(), metadata=metadata)
    snapshot = set[str]()
    async for item in watch:
        if item.kind == api.WATCH_ITEM_KIND_SNAPSHOT_END:
            break
        snapshot.add(item.workload.project)
    watch.cancel()
    found["watch"] = snapshot
    rows = (await here.door.http.get("/api/v1/workloads", headers=headers)).json()["workloads"]
    found["REST list"] = {row["projectName"] for row in rows}
    projects = (await here.door.http.get("/api/v1/org-unit/projects", headers=headers)).json()["projects"]
    found["REST projects"] = {row["name"] for row in projects}
    named = (await here.door.tenancy.ListProjects(tenancy_pb2.ListProjectsRequest(), metadata=metadata)).projects
    found["gRPC projects"] = {one.name for one in named}
    count = (await here.door.http.get("/api/v1/workloads/count", headers=headers)).json()["count"]
    wrong = [f"{what} of {who}: {shown}, expected {expected}" for what, shown in found.items() if shown != expected]
    return wrong if count == len(listed) else [*wrong, f"count of {who}: {count}, expected {len(listed)}"]


async def _replayed(here: House) -> None:
    """A key belongs to its caller, and a stored answer goes to nobody who has lost the right to it."""
    asked = api.SubmitWorkloadRequest(draft=draft("vision", name="mine"), idempotency_key=key())
    first, second = (here.metadata(f"researcher@{scope}") for scope in ("project/vision", "tenant"))
    made = (await here.door.workloads.SubmitWorkload(asked, metadata=first)).workload
    assert (await here.door.workloads.SubmitWorkload(asked, metadata=first)).workload.id == made.id
    with pytest.raises(grpc.aio.AioRpcError) as taken:
        await here.door.workloads.SubmitWorkload(asked, metadata=second)
    assert taken.value.code() is grpc.StatusCode.ALREADY_EXISTS
    await _take(here, "researcher@project/vision")
    with pytest.raises(grpc.aio.AioRpcError) as hidden:
        await here.door.workloads.SubmitWorkload(asked, metadata=first)
    assert hidden.value.code() is grpc.StatusCode.NOT_FOUND


async def _take(here: House, who: str) -> None:
    await here.door.app.database.pool.execute("DELETE FROM access_rules WHERE holder = $1", who)
    here.door.app.access_parts.books.stale()


async def _watched(here: House) -> None:
    """A watch shows nothing more of a project once the right to it has gone."""
    viewer, admin = here.metadata("viewer@project/vision"), here.metadata("system-admin@tenant")
    watch = here.door.workloads.WatchWorkloads(api.WatchWorkloadsRequest(), metadata=viewer)
    items = aiter(watch)
    async for item in items:
        if item.kind == api.WATCH_ITEM_KIND_SNAPSHOT_END:
            break
    await submit(here.door, "vision", "before", admin)
    assert (await anext(items)).workload.name == "before"
    await _take(here, "viewer@project/vision")
    await submit(here.door, "vision", "after", admin)
    rule = access_pb2.AccessRule(
        holder_kind="subject", holder="viewer@project/vision", role="viewer", scope_kind="project", scope="web"
    )
    await here.door.access.GrantRole(access_pb2.GrantRoleRequest(rule=rule, idempotency_key=key()), metadata=admin)
    await submit(here.door, "web", "elsewhere", admin)
    assert (await anext(items)).workload.name == "elsewhere"
    watch.cancel()


_JUDGED_ELSEWHERE: Final = {
    "ListWorkloads": "by its rows, above",
    "ListArchivedWorkloads": "by its rows, above",
    "ListProjects": "by its rows, above",
    "ValidateWorkload": "answers with the violation that the project does not exist",
    "WhoAmI": "shows the caller to the caller",
    "CanI": "shows the caller to the caller",
    "IssueToken": "test_applications.py",
    "ListAccessRules": "test_applications.py",
    "RevokeRole": "test_applications.py",
    "RotateApplication": "as CreateApplication; test_applications.py",
    "RevokeApplication": "as CreateApplication; test_applications.py",
    "Connect": "by _agents, below",
    "FetchSecrets": "by _agents, below",
    "FindDeleted": "by _agents, below",
    "GetTrigger": "as ApplyTrigger, for one that is there",
    "DeleteTrigger": "as ApplyTrigger, for one that is there",
    "TestTrigger": "as ApplyTrigger",
    "ReplayFiring": "as ApplyTrigger",
    "UpdateProject": "as SetProjectQuota",
    "ListDepartments": "as GetDepartment, by its rows",
    "SetDepartmentQuota": "as UpdateDepartment",
    "ListClusters": "as ListNodes, by its rows",
    "ListAccounts": "by its rows, as GetProject",
    "DiscardDeadLetters": "as RedriveDeadLetters",
    "CreateNodePool": "as RegisterCluster, with node-pools.write",
    "UpdateNodePool": "as RegisterCluster, with node-pools.write",
    "DeleteNodePool": "as RegisterCluster, with node-pools.write",
    "ListNodePools": "as ListNodes, by its rows",
}


def test_every_method_of_every_service_is_in_the_table() -> None:
    """A method that is added without a row here has been judged by nobody."""
    judged = {rpc.method for rpc in RPCS} | {"SubmitWorkloads"}
    served = {
        method.name
        for module in SERVICES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert judged | set(_JUDGED_ELSEWHERE) == served
    assert not judged & set(_JUDGED_ELSEWHERE)


async def _agent_answer(here: House, who: str, cluster: str) -> Answer:
    hello = agent_gateway_pb2.ConnectRequest(hello=agent_gateway_pb2.AgentHello(cluster=cluster, instance="i"))

    async def sent() -> AsyncIterator[agent_gateway_pb2.ConnectRequest]:
        yield hello

    call = here.door.gateway.Connect(sent(), metadata=here.metadata(who))
    return await _grpc_answer(call.read())


async def _agents(here: House) -> None:
    """An agent's role lets it in for its own cluster, and nobody else is an agent."""
    pool = here.door.app.database.pool
    await pool.execute(
        "INSERT INTO access_rules (holder_kind, holder, issuer, role, scope_kind, scope, created_at, created_by) "
        "VALUES ('subject', 'agent', 'tests', 'cluster-agent', 'cluster', 'east', now(), 'test')"
    )
    here.door.app.access_parts.books.stale()
    assert await _agent_answer(here, "agent", "east") is Answer.ALLOWED
    assert await _agent_answer(here, "agent", "west") is Answer.HIDDEN
    for who in ("nobody", "viewer@tenant", "department-admin@tenant"):
        assert await _agent_answer(here, who, "east") is not Answer.ALLOWED
        fetched = agent_gateway_pb2.FetchSecretsRequest(cluster="east", workload_id=here.seen.id)
        asked = here.door.gateway.FetchSecrets(fetched, metadata=here.metadata(who))
        assert await _grpc_answer(asked) is not Answer.ALLOWED
        looked = agent_gateway_pb2.FindDeletedRequest(cluster="east", workload_ids=[here.seen.id])
        found = here.door.gateway.FindDeleted(looked, metadata=here.metadata(who))
        assert await _grpc_answer(found) is not Answer.ALLOWED
    listed = api.ListWorkloadsRequest()
    assert not (await here.door.workloads.ListWorkloads(listed, metadata=here.metadata("agent"))).workloads


async def _bad_tokens(here: House) -> None:
    """A token that does not hold opens no door, and each says so in its own words."""
    good = {"iss": "tests", "aud": "muster", "sub": "system-admin@tenant", "exp": time.time() + 3600}
    bad = [
        jwt.encode(good | {"exp": 1}, SECRET, algorithm="HS256"),
        jwt.encode(good | {"aud": "another"}, SECRET, algorithm="HS256"),
        jwt.encode(good | {"iss": "another"}, SECRET, algorithm="HS256"),
        jwt.encode(good, SECRET[::-1], algorithm="HS256"),
        jwt.encode(good, "", algorithm="none"),
        jwt.encode(good, SECRET, algorithm="HS256").rpartition(".")[0] + ".",
        jwt.encode(good | {"iss": "muster", "credential": 1}, SECRET, algorithm="HS256"),
    ]
    for token in bad:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.door.workloads.ListWorkloads(
                api.ListWorkloadsRequest(), metadata=(("authorization", f"Bearer {token}"),)
            )
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        for path in ("/api/v1/workloads", f"{K8S}/object"):
            answer = await here.door.http.get(path, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401, answer.text
            assert answer.headers["www-authenticate"] == "Bearer"


async def _hidden(here: House) -> None:
    """What one may not see looks exactly like what does not exist."""
    who = here.metadata("viewer@project/web")
    said = []
    for ref in (api.WorkloadRef(project="vision", name="seen"), api.WorkloadRef(project="vision", name="none")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.door.workloads.GetWorkload(api.GetWorkloadRequest(workload=ref), metadata=who)
        said.append(str(refused.value.details()).replace(ref.name, "NAME"))
    assert said[0] == said[1]
    bodies: list[httpx.Response] = [
        await here.door.http.get(f"/api/v1/workloads/{one}", headers=here.headers("viewer@project/web"))
        for one in (here.seen.id, "00000000-0000-7000-8000-000000000000")
    ]
    assert bodies[0].text.replace(here.seen.id, "ID") == bodies[1].text.replace(
        "00000000-0000-7000-8000-000000000000", "ID"
    )


async def test_what_the_table_does_not_say(database: Any, kafka: str, tmp_path: Path) -> None:
    async with house(database, kafka, tmp_path) as here:
        await _bad_tokens(here)
        await _hidden(here)
        await _agents(here)
        await _replayed(here)
        await _watched(here)
