"""A real API server accepts everything that the Kubernetes back end makes of any honoured field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_cluster_agent.domain.kubernetes import programs, roots, workload_objects
from muster_cluster_agent.domain.kubernetes.resources import CONFIG_MAP
from tests.support.kubernetes import MISSING, Cluster, built, cluster
from tests.support.kubernetes_pods import OWNER
from tests.support.kubernetes_samples import NAMESPACE, SAMPLES, made_of, plans_of

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)

GANGS: dict[str, dict[str, Any]] = {
    "torchrun": {"framework": workload_pb2.FRAMEWORK_PYTORCH, "command": "torchrun t.py"},
    "tensorflow": {"framework": workload_pb2.FRAMEWORK_TF, "command": "python t.py"},
    "mpi": {"framework": workload_pb2.FRAMEWORK_MPI, "command": "./solve"},
    "colossalai": {"framework": workload_pb2.FRAMEWORK_COLOSSALAI, "command": "torchrun t.py"},
}


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("kubernetes")) as found:
        assert found.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).status_code == 201
        yield found


def accepts(kubernetes: Cluster, path: str, body: Any) -> None:
    answer = kubernetes.post(path, body, dryRun="All")
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("name", SAMPLES)
def test_what_a_field_becomes_is_valid(kubernetes: Cluster, name: str) -> None:
    beside, value = SAMPLES[name]
    for path, body in made_of(**{**beside, name: value}):
        accepts(kubernetes, path, body)


@pytest.mark.parametrize("name", GANGS)
def test_what_a_gang_becomes_is_valid(kubernetes: Cluster, name: str) -> None:
    for path, body in made_of(kind=options_pb2.KIND_DISTRIBUTED, workers=2, **GANGS[name]):
        accepts(kubernetes, path, body)


def test_a_service_its_root_and_the_programs_are_valid(kubernetes: Cluster) -> None:
    ports = [
        workload_pb2.Port(label="a", container=8080),
        workload_pb2.Port(label="b", container=9090, external=30090, service_type=workload_pb2.SERVICE_TYPE_NODE_PORT),
        workload_pb2.Port(label="c", container=65535, service_type=workload_pb2.SERVICE_TYPE_LOAD_BALANCER),
    ]
    fields = {"kind": options_pb2.KIND_INFERENCE, "ports": ports}
    for path, body in made_of(**fields):
        accepts(kubernetes, path, body)
    (plan, *_) = plans_of(**fields)
    for root in (roots.manifest(OWNER, plan), workload_objects.root(OWNER, plan)):
        accepts(kubernetes, CONFIG_MAP.path(NAMESPACE), root)
    accepts(kubernetes, CONFIG_MAP.path(NAMESPACE), programs.config_map(OWNER, NAMESPACE))
