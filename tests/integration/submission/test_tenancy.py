"""Departments, projects and node pools over gRPC: made, changed, shown, removed, and what of it is published."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from muster.api.v1 import tenancy_pb2 as api
from muster.events.v1 import submission_pb2 as events
from muster.tenancy.v1 import tenancy_pb2 as books
from muster_chassis.codec import MessageDecoder
from muster_chassis.topics import TENANCY
from tests.integration.submission.test_submitting import Heard
from tests.support.doors import Door, door, key, violations
from tests.support.waiting import until

STATUS = grpc.StatusCode
DECODER = MessageDecoder(
    [events.DepartmentChanged, events.ProjectChanged, events.TemplateChanged, events.NodePoolChanged]
)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


async def department(here: Door, name: str = "research", **more: Any) -> books.Department:
    asked = api.CreateDepartmentRequest(department=books.Department(name=name, **more), idempotency_key=key())
    return (await here.tenancy.CreateDepartment(asked)).department


def changing(asked: books.Department, *paths: str) -> api.UpdateDepartmentRequest:
    return api.UpdateDepartmentRequest(department=asked, update_mask=FieldMask(paths=paths), idempotency_key=key())


async def test_tenancy(database: Any, kafka: str) -> None:
    """One service for all of it: to start one takes longer than everything that is asked of it."""
    async with door(database, kafka) as here:
        heard = Heard()
        here.scheduler.consume(heard, TENANCY, decoder=DECODER, assigned=True)
        # First: what follows publishes more events of templates.
        await a_name_that_is_used_again_goes_on_from_its_version(here, heard)
        await departments(here)
        await a_department_with_projects_stays(here)
        await projects_change_and_go(here)
        await memory_follows_another_instance(here)
        await node_pools(here, heard)


async def departments(here: Door) -> None:
    quota = books.PoolQuota(node_pool="default", gpu_deserved=7000, over_quota_weight_milli=500)
    rules = books.SchedulingRules(training_time_limit_seconds=3600)
    made = await department(here, quotas=[quota], rules=rules, rank=3, model_quotas=[{"model": "H100-80GB"}])
    assert (made.version, made.created_by, made.rank, list(made.quotas)) == (1, "local", 3, [quota])
    assert (await here.tenancy.GetDepartment(api.GetDepartmentRequest(name="research"))).department == made

    changed = await here.tenancy.UpdateDepartment(changing(books.Department(name="research", rank=9), "rank"))
    assert (changed.department.rank, changed.department.version) == (9, 2)
    assert changed.department.rules == rules
    stale = changing(books.Department(name="research", version=1), "rank")
    assert (await refused(here.tenancy.UpdateDepartment(stale))).code() is STATUS.ABORTED
    wrong = changing(books.Department(name="research"), "name")
    assert violations(await refused(here.tenancy.UpdateDepartment(wrong))).keys() == {"name"}

    assert (await refused(department(here))).code() is STATUS.ALREADY_EXISTS
    bad = department(here, "Bad", rank=2000, model_quotas=[{"model": "!"}, {"model": "!"}])
    assert violations(await refused(bad)).keys() == {
        "name",
        "rank",
        "model_quotas.0.model",
        "model_quotas.1.model",
        "model_quotas",
    }
    listed = await here.tenancy.ListDepartments(api.ListDepartmentsRequest(page_size=1))
    rest = api.ListDepartmentsRequest(page_size=1, page_token=listed.next_page_token)
    names = [listed.departments[0].name, (await here.tenancy.ListDepartments(rest)).departments[0].name]
    assert names == ["default", "research"]


async def a_department_with_projects_stays(here: Door) -> None:
    await department(here, "sales")
    await here.project("s-1", department="sales")
    gone = api.DeleteDepartmentRequest(name="sales", idempotency_key=key())
    error = await refused(here.tenancy.DeleteDepartment(gone))
    assert error.code() is STATUS.FAILED_PRECONDITION
    assert "s-1" in (error.details() or "")
    await here.tenancy.DeleteProject(api.DeleteProjectRequest(name="s-1", idempotency_key=key()))
    await here.tenancy.DeleteDepartment(api.DeleteDepartmentRequest(name="sales", idempotency_key=key()))
    asked = here.tenancy.GetDepartment(api.GetDepartmentRequest(name="sales"))
    assert (await refused(asked)).code() is STATUS.NOT_FOUND
    always = api.DeleteDepartmentRequest(name="default", idempotency_key=key())
    assert (await refused(here.tenancy.DeleteDepartment(always))).code() is STATUS.FAILED_PRECONDITION


async def projects_change_and_go(here: Door) -> None:
    rules = books.SchedulingRules(training_time_limit_seconds=60, interactive_idle_limit_seconds=10)
    await department(here, "labs", rules=rules)
    loose = books.SchedulingRules(training_time_limit_seconds=61)
    loosened = await refused(here.project(department="labs", rules=loose))
    assert violations(loosened).keys() == {"rules.training_time_limit_seconds"}
    made = await here.project(
        department="labs",
        description="vision",
        rules=books.SchedulingRules(training_time_limit_seconds=30),
        node_types=books.NodeTypes(training=["dgx"]),
        user_limits=[books.UserLimit(gpu_limit=7000)],
    )
    assert (made.node_types.training, made.user_limits[0].gpu_limit) == (["dgx"], 7000)
    asked = books.Project(name="team-a", version=made.version, default_node_pools=["h100", "default"])
    update = api.UpdateProjectRequest(
        project=asked, update_mask=FieldMask(paths=["default_node_pools", "node_types"]), idempotency_key=key()
    )
    changed = (await here.tenancy.UpdateProject(update)).project
    assert (list(changed.default_node_pools), changed.HasField("node_types")) == (["h100", "default"], False)
    assert (changed.description, changed.version) == ("vision", 2)

    await here.template()
    await here.submit(name="w")
    gone = api.DeleteProjectRequest(name="team-a", idempotency_key=key())
    busy = await refused(here.tenancy.DeleteProject(gone))
    assert (busy.code(), "1 workload that has not ended" in (busy.details() or "")) == (
        STATUS.FAILED_PRECONDITION,
        True,
    )


async def a_name_that_is_used_again_goes_on_from_its_version(here: Door, heard: Heard) -> None:
    first = await here.project("again", description="old")
    await here.template(project="again")
    await here.tenancy.DeleteProject(api.DeleteProjectRequest(name="again", idempotency_key=key()))
    assert (await refused(here.template(project="again"))).code() is STATUS.NOT_FOUND
    assert await here.app.tenancy.project_of_namespace("runai-again") is None
    again = await here.project("again")
    assert (again.version, again.id > first.id, again.description) == (2, True, "")

    def told() -> list[tuple[str, bool]]:
        kinds = ("project/again", "template/")
        mine = [one for one in heard.events if one.aggregate.startswith(kinds)]
        return sorted((one.aggregate.split("/")[0], one.tombstone) for one in mine)

    wanted = [("project", False), ("project", False), ("project", True), ("template", False), ("template", True)]
    await until(lambda: told() == wanted)
    versions = [one.message.project.version for one in heard.events if one.aggregate == "project/again" and one.message]
    assert versions == [1, 2]


async def memory_follows_another_instance(here: Door) -> None:
    await here.project("far")
    own, other = here.app.tenancy, type(here.app.tenancy)(here.app.database.pool)
    found = await other.project("far")
    assert found is not None
    assert await other.project_by_id(found.id) == found
    await here.tenancy.DeleteProject(api.DeleteProjectRequest(name="far", idempotency_key=key()))
    assert await own.project("far") is None
    assert await other.project_by_id(found.id + 1) is None  # an unknown one makes it look
    assert await other.project("far") is None
    assert sorted(one.name for one in await other.all_departments()) == ["default", "labs", "research"]


async def node_pools(here: Door, heard: Heard) -> None:
    async def make(**more: Any) -> books.NodePool:
        asked = api.CreateNodePoolRequest(node_pool=books.NodePool(**more), idempotency_key=key())
        return (await here.tenancy.CreateNodePool(asked)).node_pool

    label = {"label_key": "pool", "label_value": "h100"}
    unknown = await refused(make(cluster="east", name="h100", **label))
    assert unknown.code() is STATUS.NOT_FOUND
    await here.app.node_pools.note(here.app.database, ["east"], [("east", "seen")])
    made = await make(cluster="east", name="h100", gpu_placement=books.PLACEMENT_STRATEGY_SPREAD, **label)
    assert (made.id, made.version, made.created_by) == (3, 1, "local")
    assert (await refused(make(cluster="east", name="h100", label_key="a", label_value="b"))).code() is (
        STATUS.ALREADY_EXISTS
    )
    assert "a node can be in one pool only" in (
        (await refused(make(cluster="east", name="x", **label))).details() or ""
    )
    assert violations(await refused(make(cluster="east", name="x", label_key="a/b/c", label_value="-"))).keys() == {
        "label_key",
        "label_value",
    }
    asked = api.UpdateNodePoolRequest(
        node_pool=books.NodePool(cluster="east", name="h100", label_key="pool", label_value="h200"),
        update_mask=FieldMask(paths=["label_value"]),
        idempotency_key=key(),
    )
    changed = (await here.tenancy.UpdateNodePool(asked)).node_pool
    assert (changed.label_value, changed.gpu_placement, changed.version) == (
        "h200",
        books.PLACEMENT_STRATEGY_SPREAD,
        2,
    )
    page = await here.tenancy.ListNodePools(api.ListNodePoolsRequest(page_size=2))
    rest = api.ListNodePoolsRequest(page_size=2, page_token=page.next_page_token)
    found = [*page.node_pools, *(await here.tenancy.ListNodePools(rest)).node_pools]
    assert [one.name for one in found] == ["default", "h100", "seen"]
    for name, code in (("h100", None), ("default", STATUS.FAILED_PRECONDITION), ("h100", STATUS.NOT_FOUND)):
        gone = api.DeleteNodePoolRequest(cluster="east", name=name, idempotency_key=key())
        if code is None:
            await here.tenancy.DeleteNodePool(gone)
        else:
            assert (await refused(here.tenancy.DeleteNodePool(gone))).code() is code
    await until(lambda: sum(one.aggregate.startswith("pool/") for one in heard.events) == 5)
    assert any(one.aggregate == "pool/3" and one.tombstone for one in heard.events)
