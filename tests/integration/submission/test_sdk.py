"""The vendor's own SDK drives a whole stack: nothing of it is changed but its URL and its credentials.

One stack is shared by the run, so everything here stands in a project of its own. Each answer is judged by the SDK's
model for it, which the SDK itself never does.
"""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from runai import api_client as sdk
from runai import models as sdk_models
from runai import runai_client as sdk_client
from runai.configuration import Configuration
from runai.exceptions import ApiException

from tests.support.sdk import judge

models: Final[Any] = sdk_models  # the package exports its models without saying so to type checkers
CLIENTS: Final[Any] = sdk
RunaiClient: Final[Any] = sdk_client.RunaiClient
SECONDS: Final = 60.0
POOL: Final = "default"


@dataclass(frozen=True, slots=True)
class Driven:
    """The SDK at a stack: its client, its credentials, and where it works."""

    url: str
    client_id: str
    client_secret: str
    client: Any
    cluster: str
    project: str

    def configuration(self, **more: Any) -> Configuration:
        """Another configuration with the same credentials."""
        given = {"client_id": self.client_id, "client_secret": self.client_secret, "runai_base_url": self.url}
        return Configuration(**(given | more))

    def create(self, kind: str, name: str, **spec: Any) -> Any:
        """What the SDK answers to a workload of that kind."""
        word = kind.capitalize()
        given = {"image": "sleeper", "command": "sleep", "args": "600"} | spec
        request = getattr(models, f"{word}CreationRequest")(
            name=name,
            project_id=self.project,
            cluster_id=self.cluster,
            spec=getattr(models, f"{word}SpecSpec")(**given),
        )
        return METHODS[kind](self.client, request)


METHODS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "workspace": lambda client, request: client.workloads.workspaces.create_workspace1(request),
    "training": lambda client, request: client.workloads.trainings.create_training1(request),
    "distributed": lambda client, request: client.workloads.distributed.create_distributed(request),
    "inference": lambda client, request: client.workloads.inferences.create_inference1(request),
}
SPECS: Final[Mapping[str, Mapping[str, Any]]] = {
    "workspace": {},
    "training": {},
    "distributed": {"num_workers": 2, "distributed_framework": "PyTorch"},
    "inference": {"command": "python", "args": "-m http.server ${PORT}"},
}


@pytest.fixture(scope="module")
def driven(running_stack: Any) -> Iterator[Driven]:
    row = running_stack.status()["services"]["submission"]
    url = f"http://{row['rest']}"
    first = json.loads((running_stack.layout.credentials / "admin.json").read_text())
    client_id, client_secret = first["id"], first["secret"]
    configuration = Configuration(client_id=client_id, client_secret=client_secret, runai_base_url=url)
    with RunaiClient(CLIENTS.ApiClient(configuration)) as client:
        cluster = judge("get_clusters", client.organizations.clusters.get_clusters().data)[0].uuid
        department = client.organizations.departments.create_department(
            models.DepartmentCreationRequest(name=_name("d"), cluster_id=cluster, resources=[_gpus(8)])
        )
        assert judge("create_department", department.data).resources[0].gpu.deserved == 8
        project = client.organizations.projects.create_project(
            models.ProjectCreationRequest(
                name=_name("p"), cluster_id=cluster, parent_id=department.data["id"], resources=[_gpus(4)]
            )
        )
        made = judge("create_project", project.data)
        yield Driven(url, client_id, client_secret, client, cluster, made.id)
        for one in client.workloads.workloads.get_workloads(filter_by=[f"projectId=={made.id}"]).data["workloads"]:
            kind = {"Workspace": "workspaces", "Inference": "inferences", "Distributed": "distributed"}
            place = getattr(client.workloads, kind.get(one["type"], "trainings"))
            next(getattr(place, name) for name in dir(place) if name.startswith("delete_"))(one["id"])


def _name(head: str) -> str:
    return f"{head}-{secrets.token_hex(4)}"


def _gpus(deserved: float) -> Any:
    return models.Resources(gpu=models.ResourcesGpu(deserved=deserved))


def until(look: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """What `look` answers once it is good; asks again, as a program that uses the SDK does."""
    end = time.monotonic() + SECONDS
    while not good(seen := look()):
        assert time.monotonic() < end, seen
        time.sleep(0.1)
    return seen


def test_organizations(driven: Driven) -> None:
    places = driven.client.organizations
    # A stack is ready a moment before its agents have spoken.
    one = until(
        lambda: judge("get_cluster", places.clusters.get_cluster_by_uuid(driven.cluster).data),
        lambda seen: seen.status.state == "Connected",
    )
    assert one.uuid == driven.cluster
    nodes = until(lambda: judge("get_nodes", places.nodes.get_nodes(driven.cluster).data).nodes, bool)
    assert {node.cluster_uuid for node in nodes} == {driven.cluster}
    pools = judge("get_node_pools", places.node_pools.get_node_pools(driven.cluster).data)
    assert [pool.name for pool in pools if pool.is_default] == [POOL]
    made = places.node_pools.create_node_pool(
        driven.cluster, models.NodePoolCreateRequest(name=_name("pool"), label_key="gpu", label_value=_name("v"))
    )
    number = judge("create_node_pool", made.data).id
    changed = models.UpdateNodePoolRequest(placement_strategy=models.PlacementStrategy(gpu="spread"))
    assert places.node_pools.update_node_pool(driven.cluster, number, changed).status_code == 202
    assert places.node_pools.delete_node_pool(driven.cluster, number).status_code == 202

    found = judge("get_projects", places.projects.get_projects(filter_by=[f"id=={driven.project}"]).data).projects
    assert [one.id for one in found] == [driven.project]
    resources = places.projects.update_project_resources(driven.project, [_gpus(3.5)])
    assert judge("update_project_resources", resources.data).resources[0].gpu.deserved == 3.5
    patched = places.projects.patch_project_resources(driven.project, [_gpus(4)])
    assert judge("patch_project_resources", patched.data).resources[0].gpu.deserved == 4
    rules = models.DataUpdatableFieldsSchedulingRules(training_job_time_limit_seconds=86400)
    update = models.ProjectUpdateRequest(resources=[_gpus(4)], scheduling_rules=rules)
    updated = judge("update_project", places.projects.update_project(driven.project, update).data)
    assert updated.scheduling_rules.training_job_time_limit_seconds == 86400
    again = judge("get_project", places.projects.get_project(driven.project).data)
    assert again.parent_id is not None
    department = judge("get_department", places.departments.get_department(again.parent_id).data)
    assert department.name == again.parent.name
    assert judge("get_departments", places.departments.get_departments(limit=1).data).departments
    with pytest.raises(ApiException) as refused:
        places.departments.delete_department(again.parent_id)
    assert refused.value.status == 409


@pytest.mark.parametrize("kind", SPECS)
def test_a_workload_of_each_kind(driven: Driven, kind: str) -> None:
    name, work = _name(kind[:4]), driven.client.workloads
    more: dict[str, Any] = dict(SPECS[kind])
    if kind == "inference":
        more["serving_port"] = models.ServingPort(container=8000)
    made = judge(f"create_{kind}", driven.create(kind, name, **more).data)
    assert (made.name, made.project_id) == (name, driven.project)
    place = getattr(work, f"{kind}s" if kind != "distributed" else kind)
    verb: Callable[[str], Any] = lambda word: getattr(place, f"{word}_{kind}")  # noqa: E731 - the SDK's own names
    assert judge(f"get_{kind}", verb("get")(made.workload_id).data).workload_id == made.workload_id

    def phase() -> str:
        return str(judge("get_workload", work.workloads.get_workload(made.workload_id).data).phase.value)

    until(phase, lambda seen: seen == "Running")
    asked = [f"name=={name}", "phase==Running"]
    (row,) = judge("get_workloads", work.workloads.get_workloads(filter_by=asked).data).workloads
    assert (row.id, row.project_id, row.cluster_id) == (made.workload_id, driven.project, driven.cluster)
    assert judge("count_workloads", work.workloads.count_workloads(filter_by=asked).data).count == 1
    pods = judge("get_workload_pods", work.pods.get_workload_pods(made.workload_id).data).pods
    assert len(pods) == (2 if kind == "distributed" else 1)
    assert judge("list_pods", work.pods.list_pods(filter_by=[f"workloadId=={made.workload_id}"]).data).pods
    assert judge("count_pods", work.pods.count_pods(filter_by=[f"workloadId=={made.workload_id}"]).data).count
    assert judge("get_workload_events", work.events.get_workload_events(made.workload_id).data).events
    records = judge("get_workload_history", work.events.get_workload_history(made.workload_id).data).records
    assert records

    # The SDK of 2.18 suspends workspaces and trainings only; the routes are there for every kind.
    def ask(word: str) -> Any:
        if hasattr(place, f"{word}_{kind}"):
            return verb(word)(made.workload_id)
        path = f"/api/v1/workloads/{'inferences' if kind == 'inference' else kind}/{made.workload_id}/{word}"
        return work.api_client.call_api(method="POST", resource_path=path)

    assert ask("suspend").status_code == 202
    until(phase, lambda seen: seen == "Stopped")
    assert ask("resume").status_code == 202
    until(phase, lambda seen: seen == "Running")
    assert verb("delete")(made.workload_id).status_code == 204
    until(lambda: work.workloads.get_workloads(filter_by=[f"name=={name}"]).data["workloads"], lambda seen: not seen)


def test_a_refusal_is_the_sdks_own_exception(driven: Driven) -> None:
    with pytest.raises(ApiException) as refused:
        driven.client.workloads.trainings.get_training(str(uuid.uuid4()))
    assert refused.value.status == 404
    with pytest.raises(ApiException) as wrong:
        driven.create("training", "Bad_Name")
    assert wrong.value.status == 400


def test_tokens_are_refreshed(driven: Driven) -> None:
    client = CLIENTS.ApiClient(driven.configuration(token_refresh_margin=7200))  # an hour's token: always about to end
    first = client._token
    RunaiClient(client).organizations.clusters.get_clusters()
    assert client._token != first
    client.close()


def test_threads(driven: Driven) -> None:
    # Kept in a name: a client that nobody holds closes itself, and its threads with it.
    client = RunaiClient(CLIENTS.ThreadedApiClient(driven.configuration(pool_maxsize=4, token_refresh_margin=7200)))
    answers = [client.organizations.clusters.get_clusters() for _ in range(8)]
    assert {answer.get(timeout=SECONDS).status_code for answer in answers} == {200}


async def test_the_asynchronous_client(driven: Driven) -> None:
    """It encodes bodies twice, which is undone; its refresh is a defect of its own, so it is switched off."""
    configuration = driven.configuration(auto_refresh_token=False)
    async with CLIENTS.AsyncApiClient(configuration) as client:
        request = models.DepartmentCreationRequest(name=_name("a"), cluster_id=driven.cluster, resources=[_gpus(1)])
        path = "/api/v1/org-unit/departments"
        made = await client.call_api(method="POST", resource_path=path, body=request)
        assert made.status_code == 201
    found = driven.client.organizations.departments.get_departments(filter_by=[f"name=={request.name}"])
    (department,) = judge("get_departments", found.data).departments
    assert driven.client.organizations.departments.delete_department(department.id).status_code == 204


def test_a_wrong_secret(driven: Driven) -> None:
    # The SDK looks for the token and not at the status: whatever is refused is a ValueError with our answer in it.
    with pytest.raises(ValueError, match="'code': 401"):
        CLIENTS.ApiClient(driven.configuration(client_secret="wrong", retry_enabled=False))


def test_figures(driven: Driven) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    clusters = driven.client.organizations.clusters
    found = clusters.get_cluster_metrics(
        driven.cluster, start=end - timedelta(hours=2), end=end, metric_type=[models.MetricsType.TOTAL_GPU]
    )
    assert judge("get_cluster_metrics", found.data).measurements[0].type == "TOTAL_GPU"
    nodes = driven.client.organizations.nodes.get_node_telemetry(models.NodeTelemetryType.TOTAL_GPUS)
    assert judge("get_node_telemetry", nodes.data).values
