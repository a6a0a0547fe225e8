"""Additional containers of a pod: checkouts of repositories, and TensorBoard."""

from __future__ import annotations

from typing import Any

import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import storage_pb2, workload_pb2
from muster_cluster_agent.domain.kubernetes import manifests, run_objects, workload_objects
from muster_cluster_agent.domain.kubernetes.amounts import amounts_of
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan
from muster_cluster_agent.domain.sealed import is_sealed, opened
from tests.support.kubernetes_pods import OWNER
from tests.support.kubernetes_samples import STYLE, plans_of

SEALED = "muster-sealed:33333333-3333-4333-8333-333333333333:1"


def repository(path: str = "/code", **fields: Any) -> storage_pb2.GitRepository:
    return storage_pb2.GitRepository(label=f"g{path}", repository="https://git.example/a.git", path=path, **fields)


def spec_of(plan: ReplicaPlan) -> dict[str, Any]:
    return dict(manifests.pod(OWNER, plan, STYLE, "uid")["spec"])


def checked_out(*repositories: storage_pb2.GitRepository, **fields: Any) -> ReplicaPlan:
    return plans_of(git_sync=repositories, **fields)[0]


def test_each_repository_is_checked_out_where_the_workload_finds_it() -> None:
    plan = checked_out(repository(branch="main"), repository("/data/", revision="v$1"))
    spec = spec_of(plan)
    first, second = spec["initContainers"]
    assert (first["name"], first["image"]) == ("git-0", "git")
    assert first["command"] == ["/bin/sh", "/muster/git.sh", "/code", "https://git.example/a.git", "main", ""]
    assert second["command"][-3:] == ["https://git.example/a.git", "", "v$$1"], "the kubelet reads $ in words"
    (main,) = spec["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in main["volumeMounts"]}
    assert (mounted["git-0"], mounted["git-1"]) == ("/code", "/data")
    assert [mount["name"] for mount in first["volumeMounts"]] == ["git-0", "muster"]
    assert {volume["name"] for volume in spec["volumes"]} >= {"git-0", "git-1", "muster"}


def test_keys_of_a_secret_are_named_in_the_pod() -> None:
    plan = checked_out(repository(secret_name="git", secret_key_of_user="user"))
    env = {one["name"]: one.get("valueFrom") for one in spec_of(plan)["initContainers"][0]["env"]}
    assert env["MUSTER_GIT_USERNAME"] == {"secretKeyRef": {"name": "git", "key": "user"}}
    assert env["MUSTER_GIT_PASSWORD"] == {"secretKeyRef": {"name": "git", "key": "password"}}
    assert not is_sealed(plan)
    plan = checked_out(repository(secret_name="git"))
    env = {one["name"]: one.get("valueFrom") for one in spec_of(plan)["initContainers"][0]["env"]}
    assert env["MUSTER_GIT_USERNAME"] == {"secretKeyRef": {"name": "git", "key": "username", "optional": True}}


def test_a_credential_may_name_a_key_of_a_secret_as_variables_do() -> None:
    plan = checked_out(repository(password="SECRET:git,token"))
    env = {one["name"]: one.get("valueFrom") for one in spec_of(plan)["initContainers"][0]["env"]}
    assert env["MUSTER_GIT_PASSWORD"] == {"secretKeyRef": {"name": "git", "key": "token"}}
    assert not is_sealed(plan)


def test_a_credential_that_muster_keeps_goes_through_a_secret_of_the_run() -> None:
    plan = checked_out(repository(), repository("/other", username="ann", password=SEALED))
    assert is_sealed(plan)
    assert opened(plan, {}) is None
    ready = opened(checked_out(repository("/other", password=SEALED)), {SEALED: "hunter2"})
    assert ready is not None
    pod = manifests.pod(OWNER, ready, STYLE, "uid")
    assert "hunter2" not in str(pod)
    (variable,) = [one for one in pod["spec"]["initContainers"][0]["env"] if one["name"] == "MUSTER_GIT_PASSWORD"]
    reference = variable["valueFrom"]["secretKeyRef"]
    (secret,) = [made for _, made in run_objects.objects_of(OWNER, ready, None) if made["kind"] == "Secret"]
    assert secret["metadata"]["name"] == reference["name"]
    assert secret["data"] == {reference["key"]: "aHVudGVyMg=="}
    assert "MUSTER_GIT_PASSWORD" not in {one["name"] for one in pod["spec"]["containers"][0]["env"]}


def test_a_checkout_asks_for_no_device_and_may_what_the_workload_may() -> None:
    plan = checked_out(repository(), memory="1Gi", read_only_root_filesystem=True)
    spec = spec_of(plan)
    assert spec["initContainers"][0]["resources"] == {"requests": {"memory": "1073741824"}}
    assert spec["initContainers"][0]["securityContext"] == spec["containers"][0]["securityContext"]


def test_two_things_do_not_share_a_folder() -> None:
    folder = storage_pb2.EmptyDirVolume(label="e", path="/code/")
    with pytest.raises(InvalidCommand, match="checks a repository out into /code, where something else is mounted"):
        spec_of(checked_out(repository(), empty_dir_volumes=[folder]))
    with pytest.raises(InvalidCommand, match="where something else is mounted"):
        spec_of(checked_out(repository(), repository("/code/")))


def board(**fields: Any) -> ReplicaPlan:
    return plans_of(kind=options_pb2.KIND_WORKSPACE, tensorboard=True, **fields)[0]


def test_tensorboard_runs_beside_the_workspace_and_reads_its_logs() -> None:
    plan = board(tensorboard_logdir="/logs/run", exposed_urls=[workload_pb2.ExposedUrl(label="u", container=6006)])
    spec = spec_of(plan)
    (sidecar,) = spec["initContainers"]
    assert (sidecar["name"], sidecar["image"], sidecar["restartPolicy"]) == ("tensorboard", "tensorboard", "Always")
    assert sidecar["command"][:2] == ["tensorboard", "--logdir=/logs/run"]
    assert sidecar["volumeMounts"] == [{"name": "tensorboard-logs", "mountPath": "/logs/run", "readOnly": True}]
    (main,) = spec["containers"]
    assert {"name": "tensorboard-logs", "mountPath": "/logs/run"} in main["volumeMounts"]
    assert "ports" not in main
    (service,) = workload_objects.services_of(OWNER, plan)
    assert service["spec"]["ports"] == [{"name": "p-6006", "port": 6006, "targetPort": 6006}]
    assert workload_objects.addresses_of(plan, STYLE.urls) == (
        "http://bert-p.lab.example",
        "http://bert.runai-p.svc:6006",
    )


def test_a_pod_asks_for_no_more_than_the_scheduler_has_counted() -> None:
    asked = {"cpu": "6", "memory": "8Gi", "git_sync": [repository()], "tensorboard_logdir": "/logs"}
    amounts = amounts_of(spec_of(board(**asked)))
    assert (amounts.cpu, amounts.memory) == (6000, 8 << 30)


@pytest.mark.parametrize("logs", ["logs", "/", "/a:b"])
def test_a_folder_of_logs_that_cannot_be_mounted_is_refused(logs: str) -> None:
    with pytest.raises(InvalidCommand, match="absolute path other than /"):
        spec_of(board(tensorboard_logdir=logs))


def test_logs_in_an_object_store_are_not_mounted() -> None:
    spec = spec_of(board(tensorboard_logdir="s3://bucket/run"))
    assert "volumes" not in spec
    assert "--logdir=s3://bucket/run" in spec["initContainers"][0]["command"]


@pytest.mark.parametrize("path", ["/muster", "/muster-ssh", "/dev/shm"])
def test_folders_of_muster_are_not_checked_out_into(path: str) -> None:
    with pytest.raises(InvalidCommand, match="where something else is mounted"):
        spec_of(checked_out(repository(path)))


def test_a_cluster_that_has_lost_its_images_says_so() -> None:
    for plan in (checked_out(repository()), board(tensorboard_logdir="/logs")):
        with pytest.raises(InvalidCommand, match="this cluster gives no image for"):
            manifests.pod(OWNER, plan, Style(), "uid")


@pytest.mark.parametrize("logs", ["/work", "/work/logs/"])
def test_logs_on_a_volume_of_the_workspace_need_no_other_volume(logs: str) -> None:
    claim = storage_pb2.PersistentVolumeClaim(label="c", path="/work", claim_name="c", existing_pvc=True)
    names = [each["name"] for each in spec_of(board(tensorboard_logdir=logs, pvcs=[claim]))["volumes"]]
    assert names == ["v0"]


def test_tensorboard_needs_a_folder_and_its_port() -> None:
    with pytest.raises(InvalidCommand, match="set tensorboardLogdir"):
        spec_of(board())
    with pytest.raises(InvalidCommand, match="port 6006 is TensorBoard's own"):
        spec_of(board(tensorboard_logdir="/l", ports=[workload_pb2.Port(label="p", container=6006)]))
