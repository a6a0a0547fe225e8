"""Projects, departments, clusters, nodes and node pools over REST: each answer is judged by the vendor's own models."""

from __future__ import annotations

from typing import Any, Final

import grpc
import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from muster.api.v1 import fleet_pb2 as api
from muster.api.v1 import fleet_pb2_grpc, tenancy_pb2
from muster.fleet.v1 import fleet_pb2 as fleet
from muster.tenancy.v1.tenancy_pb2 import PoolQuota
from muster_submission.domain.fleet import ANY_CLUSTER, cluster_uuid
from tests.support.doors import Door, door, key, violations
from tests.support.sdk import judge, members

PROJECTS: Final = "/api/v1/org-unit/projects"
DEPARTMENTS: Final = "/api/v1/org-unit/departments"
EAST: Final = cluster_uuid("east")

REFUSED: Final[list[tuple[dict[str, Any], set[str]]]] = [
    ({"name": "Bad"}, {"name"}),
    ({"requestedNamespace": "kube-x"}, {"requestedNamespace"}),
    ({"clusterId": cluster_uuid("ghost")}, {"clusterId"}),
    ({"clusterId": None}, {"clusterId"}),
    ({"parentId": "99"}, {"parentId"}),
    ({"resources": None}, {"resources"}),
    ({"resources": [{"gpu": {"deserved": -2}}]}, {"resources.0.gpu.deserved"}),
    ({"resources": [{"gpu": {"deserved": "2"}}]}, {"resources.0.gpu.deserved"}),
    ({"resources": [{"gpu": {"deserved": True}}]}, {"resources.0.gpu.deserved"}),
    ({"resources": [{"gpu": {"deserved": 0.3333}}]}, {"resources.0.gpu.deserved"}),
    ({"resources": [{"gpu": {"deserved": 1}, "memory": {"units": "TB"}}]}, {"resources.0.memory.units"}),
    ({"resources": [{"nodePool": {"id": "77"}, "gpu": {"deserved": 1}}]}, {"resources.0.nodePool.id"}),
    ({"resources": [{"gpu": {"deserved": 1}}, {"gpu": {"deserved": 1}}]}, {"resources"}),
    ({"schedulingRules": {"trainingJobTimeLimitSeconds": 0}}, {"schedulingRules.trainingJobTimeLimitSeconds"}),
    ({"nodeTypes": {"inference": []}}, {"nodeTypes.inference"}),
    ({"owner": "me"}, {"owner"}),
]


class Scheduler(fleet_pb2_grpc.FleetServiceServicer):
    """Two clusters: east with two nodes, one of them in a pool that nobody has declared; west without any."""

    async def ListClusters(self, request: Any, context: Any) -> api.ListClustersResponse:
        heard = Timestamp(seconds=1_700_000_000)
        profile = fleet.ClusterProfile(backend="local")
        east = fleet.Cluster(id="east", state=fleet.CLUSTER_STATE_READY, heard_at=heard, profile=profile)
        west = fleet.Cluster(id="west", state=fleet.CLUSTER_STATE_REGISTERED)
        return api.ListClustersResponse(clusters=[east, west])

    async def ListNodes(self, request: Any, context: Any) -> api.ListNodesResponse:
        devices = [fleet.DeviceUse(uuid=f"GPU-{n}", model="A100-80GB", mode="idle", free_milli=500) for n in range(4)]
        taint = fleet.Taint(key="gpu", value="yes", effect="NoSchedule")
        nodes = [
            fleet.NodeView(cluster="east", name="n1", pool="default", state=fleet.NODE_STATE_READY, devices=devices),
            fleet.NodeView(cluster="east", name="n2", pool="spot", state=fleet.NODE_STATE_CORDONED, taints=[taint]),
        ]
        return api.ListNodesResponse(nodes=[one for one in nodes if request.cluster in {"", one.cluster}])

    async def ListAccounts(self, request: Any, context: Any) -> api.ListAccountsResponse:
        held = fleet.Amount(gpu=10_500, cpu_milli=2000, memory_bytes=3_000_000_000)
        account = fleet.Account(project="team-a", node_pool="default", allocated=held, requested=held)
        return api.ListAccountsResponse(accounts=[account] if "team-a" in request.projects else [])

    async def AdoptCluster(self, request: Any, context: Any) -> api.AdoptClusterResponse:
        return api.AdoptClusterResponse()

    async def LeaveCluster(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ListQuarantine(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ReleaseQuarantine(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def OrderNode(self, request: Any, context: Any) -> api.OrderNodeResponse:
        return api.OrderNodeResponse()

    async def SetNodeLayout(self, request: Any, context: Any) -> api.SetNodeLayoutResponse:
        return api.SetNodeLayoutResponse()

    async def ForceGoneNode(self, request: Any, context: Any) -> api.ForceGoneNodeResponse:
        return api.ForceGoneNodeResponse()

    async def RegisterCluster(self, request: Any, context: Any) -> api.RegisterClusterResponse:
        state = fleet.CLUSTER_STATE_REGISTERED
        return api.RegisterClusterResponse(cluster=fleet.Cluster(id=request.cluster, state=state))


async def test_the_fleet_and_the_organisation(database: Any, kafka: str) -> None:
    """One service for all of it: to start one takes longer than everything that is asked of it."""
    server = grpc.aio.server()
    fleet_pb2_grpc.add_FleetServiceServicer_to_server(Scheduler(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with door(database, kafka, scheduler_address=f"127.0.0.1:{port}") as here:
        await quotas_are_for_pools_that_there_are(here)
        await clusters_nodes_and_pools(here)
        await a_cluster_is_registered_and_keeps_its_name(here)
        await figures(here)
        await projects(here)
        await lists_of_projects(here)
        await projects_that_are_refused(here)
        await departments(here)
        await a_repeated_request_with_its_key_is_answered_as_before(here)
    await server.stop(0)


async def quotas_are_for_pools_that_there_are(here: Door) -> None:
    """`spot` was never listed: it is found on its node when the first quota names it."""
    unknown = "no cluster has a node pool 'spto': there are default, spot; `muster node-pools create` makes one"
    spot, misspelt = (PoolQuota(node_pool=name, gpu_deserved=7000) for name in ("spot", "spto"))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await here.project("early", quotas=[spot, misspelt])
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(error.value) == {"quotas.1.node_pool": unknown}
    await here.project("early", quotas=[spot])
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await here.tenancy.SetProjectQuota(
            tenancy_pb2.SetProjectQuotaRequest(project="early", quota=misspelt, idempotency_key=key())
        )
    assert violations(error.value) == {"quota.node_pool": unknown}
    entry = {"nodePool": {"name": "spto"}, "gpu": {"deserved": 2}}
    said = await here.http.post("/api/v1/org-unit/departments", json={**project("other"), "resources": [entry]})
    assert refusal(said, 400) == {"resources.0.nodePool"}
    gone = tenancy_pb2.DeleteProjectRequest(name="early", idempotency_key=key())
    await here.tenancy.DeleteProject(gone)


def project(name: str = "team-a", **more: Any) -> dict[str, Any]:
    return {"name": name, "clusterId": ANY_CLUSTER, "resources": [{"gpu": {"deserved": 2}}]} | more


def refusal(response: httpx.Response, status: int) -> set[str]:
    """The fields that a refusal names."""
    assert response.status_code == status, response.text
    body = response.json()
    assert judge("error", body).code == status
    return {one["field"] for one in body.get("violations", [])}


async def clusters_nodes_and_pools(here: Door) -> None:
    http = here.http
    clusters = (await http.get("/api/v1/clusters")).json()
    east, west = judge("get_clusters", clusters)
    assert (east.uuid, east.tenant_id, east.status.state) == (EAST, 1001, "Connected")
    assert west.status.state == "WaitingToConnect"
    brief = (await http.get("/api/v1/clusters", params={"verbosity": "metadata"})).json()
    assert "status" not in brief[0]
    one = await http.get(f"/api/v1/clusters/{EAST}")
    assert judge("get_cluster", one.json()) == east
    assert refusal(await http.get(f"/api/v1/clusters/{cluster_uuid('ghost')}"), 404) == set()

    nodes = judge("get_nodes", (await http.get(f"/api/v1/clusters/{EAST}/nodes")).json()).nodes
    assert [(node.name, node.status, node.node_pool) for node in nodes] == [
        ("n1", "Ready", "default"),
        ("n2", "NotReady", "spot"),
    ]
    assert (nodes[0].gpu_info.gpu_count, nodes[1].taints[0].effect) == (4, "NoSchedule")
    only = await http.get(f"/api/v1/clusters/{EAST}/nodes", params={"nodeName": "n2"})
    assert [node["name"] for node in only.json()["nodes"]] == ["n2"]

    at = f"/v1/k8s/clusters/{EAST}/node-pools"
    pools = (await http.get(at)).json()
    assert {pool.name: (pool.status, pool.is_default, pool.nodes) for pool in judge("get_node_pools", pools)} == {
        "default": ("Ready", True, '["n1"]'),
        "spot": ("Unschedulable", False, '["n2"]'),
    }
    asked = {"name": "h100", "labelKey": "pool", "labelValue": "h100", "placementStrategy": {"gpu": "spread"}}
    made = await http.post(at, json=asked)
    assert (made.status_code, judge("create_node_pool", made.json()).placement_strategy.gpu) == (201, "spread")
    number = made.json()["id"]
    assert refusal(await http.post(at, json=asked), 409) == set()
    wrong = await http.post(at, json={"name": "x", "labelKey": "pool", "placementStrategy": {"gpu": "most"}})
    assert refusal(wrong, 400) == {"placementStrategy.gpu"}
    assert refusal(await http.post(at, json={"name": "x", "labelkey": "a"}), 400) == {"labelkey"}
    renamed = await http.put(f"{at}/{number}/labels", json={"labelKey": "pool", "labelValue": "h200"})
    assert renamed.status_code == 202
    changed = (await http.get(f"/api/v1/node-pools/{number}")).json()
    assert (changed["labelValue"], changed["placementStrategy"]) == ("h200", {"cpu": "binpack", "gpu": "spread"})
    listed = await http.get("/api/v1/node-pools", params={"filterBy": "name==h100"})
    assert [pool["name"] for pool in listed.json()["nodepools"]] == ["h100"]
    later = {"name": "later", "clusterId": EAST, "labelKey": "pool", "labelValue": "b200"}
    another = await http.post("/api/v1/node-pools", json=later)
    assert (another.status_code, judge("create_node_pool", another.json()).label_value) == (201, "b200")
    place = f"/api/v1/node-pools/{another.json()['id']}"
    assert (await http.put(place, json={"labelKey": "pool", "labelValue": "b300"})).json()["labelValue"] == "b300"
    assert (await http.delete(place)).status_code == 204
    assert refusal(await http.post("/api/v1/node-pools", json={"name": "later"}), 400) == {"clusterId"}
    assert (await http.delete(f"{at}/{number}")).status_code == 202
    assert refusal(await http.delete(f"{at}/{number}"), 404) == set()
    default = next(pool["id"] for pool in pools if pool["name"] == "default")
    assert refusal(await http.delete(f"{at}/{default}"), 409) == set()


async def a_cluster_is_registered_and_keeps_its_name(here: Door) -> None:
    made = await here.http.post("/api/v1/clusters", json={"name": "north"})
    assert made.status_code == 201
    assert judge("create_cluster", made.json()).uuid == cluster_uuid("north")
    same = await here.http.put(f"/api/v1/clusters/{cluster_uuid('north')}", json={"name": "north"})
    assert (same.status_code, same.content) == (204, b"")
    other = await here.http.put(f"/api/v1/clusters/{cluster_uuid('north')}", json={"name": "south"})
    assert refusal(other, 409) == {"name"}


async def figures(here: Door) -> None:
    at = f"/api/v1/clusters/{EAST}"
    span = {"start": "2020-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"}
    asked = {**span, "metricType": ["TOTAL_GPU", "ALLOCATED_GPU", "GPU_UTILIZATION", "GPU_QUOTA"]}
    made = await here.http.post(PROJECTS, json=project())
    found = judge("get_cluster_metrics", (await here.http.get(f"{at}/metrics", params=asked)).json()).measurements
    assert {one.type: [sample.value for sample in one.values] for one in found} == {
        "TOTAL_GPU": ["4"],
        "ALLOCATED_GPU": ["2"],
        "GPU_UTILIZATION": [],
        "GPU_QUOTA": ["2"],
    }
    of_pool = await here.http.get(f"{at}/nodepools/spot/metrics", params={**span, "metricType": "TOTAL_GPU"})
    assert judge("get_pool_metrics", of_pool.json()).measurements[0].values[0].value == "0"
    bad = await here.http.get(f"{at}/metrics", params={**span, "metricType": "SPEED"})
    assert refusal(bad, 400) == {"metricType"}
    assert refusal(await here.http.get(f"{at}/metrics", params={"metricType": "TOTAL_GPU"}), 400) == {"start"}
    grouped = {"telemetryType": "NodeTelemetryType.READY_GPUS", "groupBy": "Node"}
    told = judge("get_node_telemetry", (await here.http.get("/api/v1/nodes/telemetry", params=grouped)).json())
    assert [(one.value, one.groups[0].name) for one in told.values] == [("4", "n1"), ("0", "n2")]
    assert (await here.http.delete(f"{PROJECTS}/{made.json()['id']}")).status_code == 204


async def projects(here: Door) -> None:
    http = here.http
    clusters = (await http.get("/api/v1/clusters")).json()
    pools = {pool["name"]: str(pool["id"]) for pool in (await http.get(f"/v1/k8s/clusters/{EAST}/node-pools")).json()}
    west = (await http.get(f"/v1/k8s/clusters/{cluster_uuid('west')}/node-pools")).json()[0]
    assert len(clusters) == 2
    body = project(
        clusterId=EAST,
        resources=[
            {
                "nodePool": {"id": str(west["id"]), "name": "default"},
                "gpu": {"deserved": 2.5, "limit": 4, "overQuotaWeight": 0.5},
                "cpu": {"deserved": 1500, "limit": -1},
                "memory": {"deserved": 1.5, "limit": None, "units": "GB"},
            }
        ],
        schedulingRules={"trainingJobTimeLimitSeconds": 60},
        nodeTypes={"training": ["dgx"]},
        defaultNodePools=["default"],
    )
    made = await http.post(PROJECTS, json=body)
    assert made.status_code == 201, made.text
    seen = judge("create_project", made.json())
    assert (seen.parent.name, seen.requested_namespace, seen.cluster_id) == ("default", "runai-team-a", EAST)
    # The quota is the fleet's: it was written by the id that west's pool has, and is shown by that of the home cluster.
    (quota,) = made.json()["resources"]
    assert quota == {
        "nodePool": {"id": pools["default"], "name": "default"},
        "gpu": {"deserved": 2.5, "limit": 4, "overQuotaWeight": 0.5},
        "cpu": {"deserved": 1500, "limit": None},
        "memory": {"deserved": 1500, "limit": None, "units": "MB"},
    }
    status = seen.status.quota_status.allocated
    assert (status.gpu, status.cpu, status.memory) == (1.5, 2000, 3000)
    at = f"{PROJECTS}/{made.json()['id']}"
    assert (await http.get(at)).json() == made.json()

    patched = await http.patch(f"{at}/resources", json=[{"gpu": {"deserved": 3}}, _entry(pools["spot"], 1)])
    first, second = judge("patch_project_resources", patched.json()).resources
    assert (first.gpu.deserved, first.gpu.limit, first.cpu.deserved, second.node_pool.name) == (3, 4, 1500, "spot")
    replaced = await http.put(f"{at}/resources", json=[_entry(pools["spot"], 0.25)])
    assert [one.gpu.deserved for one in judge("update_project_resources", replaced.json()).resources] == [0.25]
    updated = await http.put(at, json={"resources": []})
    assert judge("update_project", updated.json()).resources == []
    assert updated.json()["schedulingRules"] == {}

    assert refusal(await http.post(PROJECTS, json=body), 409) == set()
    both = [_entry(pools["default"], 1), _entry(str(west["id"]), 2)]
    assert refusal(await http.put(f"{at}/resources", json=both), 400) == {""}
    assert (await http.delete(at)).status_code == 204
    assert refusal(await http.get(at), 404) == set()


async def lists_of_projects(here: Door) -> None:
    made = [(await here.http.post(PROJECTS, json=project(f"p-{number}"))).json()["id"] for number in range(5)]
    page = (await here.http.get(PROJECTS, params={"limit": 2, "sortBy": "name", "sortOrder": "desc"})).json()
    assert ([one.name for one in judge("get_projects", page).projects], page["next"]) == (["p-4", "p-3"], 2)
    assert page.keys() <= members("get_projects")
    last = (await here.http.get(PROJECTS, params={"limit": 2, "offset": 4})).json()
    assert ([one["name"] for one in last["projects"]], "next" in last) == (["p-4"], False)
    old = await here.http.get(PROJECTS, params={"sortBy": "ProjectFilterSortFields.CREATED_AT", "limit": 1})
    assert old.json()["projects"][0]["name"] == "p-0"
    for filters, names in (
        (["name=^p-", "name!=p-1,name<=p-2"], ["p-0", "p-2"]),
        (['["name=$3"]'], ["p-3"]),
        (["departmentName==sales"], []),
        (["createdAt>=2100-01-01T00:00:00Z"], []),
    ):
        found = await here.http.get(PROJECTS, params={"filterBy": filters})
        assert [one["name"] for one in found.json()["projects"]] == names, filters
        count = await here.http.get(f"{PROJECTS}/count", params={"filterBy": filters})
        assert count.json() == {"count": len(names)}
    for params, field in (
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"offset": -1}, "offset"),
        ({"sortBy": "color"}, "sortBy"),
        ({"sortOrder": "up"}, "sortOrder"),
        ({"filterBy": "color==red"}, "filterBy"),
        ({"filterBy": "name~x"}, "filterBy"),
    ):
        assert refusal(await here.http.get(PROJECTS, params=params), 400) == {field}
    for number in made:
        assert (await here.http.delete(f"{PROJECTS}/{number}")).status_code == 204


async def projects_that_are_refused(here: Door) -> None:
    for wrong, fields in REFUSED:
        assert refusal(await here.http.post(PROJECTS, json=project() | wrong), 400) == fields, wrong
    assert (await here.http.get(PROJECTS)).json()["projects"] == []


async def departments(here: Door) -> None:
    body = {"name": "research", "clusterId": ANY_CLUSTER, "resources": [{"gpu": {"deserved": 8}}]}
    made = await here.http.post(DEPARTMENTS, json=body)
    assert made.status_code == 201
    number = judge("create_department", made.json()).id
    child = await here.http.post(PROJECTS, json=project(parentId=number))
    assert child.json()["parent"] == {"id": number, "name": "research"}
    at = f"{DEPARTMENTS}/{number}"
    shown = (await here.http.get(at)).json()
    assert judge("get_department", shown).name == "research"
    assert shown["status"]["quotaStatus"]["allocated"]["gpu"] == 1.5
    updated = await here.http.put(at, json={"resources": [{"gpu": {"deserved": 9}}]})
    assert judge("update_department", updated.json()).resources[0].gpu.deserved == 9
    patched = await here.http.patch(f"{at}/resources", json=[{"gpu": {"limit": 10}}])
    assert patched.json()["resources"][0]["gpu"] == {"deserved": 9, "limit": 10, "overQuotaWeight": 1}
    listed = (await here.http.get(DEPARTMENTS, params={"sortBy": "name"})).json()
    assert [one.name for one in judge("get_departments", listed).departments] == ["default", "research"]
    assert refusal(await here.http.delete(at), 409) == set()
    assert (await here.http.delete(f"{PROJECTS}/{child.json()['id']}")).status_code == 204
    assert (await here.http.delete(at)).status_code == 204
    assert refusal(await here.http.delete(at), 404) == set()


async def a_repeated_request_with_its_key_is_answered_as_before(here: Door) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await here.http.post(PROJECTS, json=project(), headers=headers)
    again = await here.http.post(PROJECTS, json=project(), headers=headers)
    assert (first.status_code, again.status_code, again.json()["id"]) == (201, 201, first.json()["id"])


def _entry(pool: str, gpus: float) -> dict[str, Any]:
    return {"nodePool": {"id": pool}, "gpu": {"deserved": gpus}}
