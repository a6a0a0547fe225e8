"""Volumes of a spec as those of its pod, and the claims that are made for it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import storage_pb2, workload_pb2
from muster_cluster_agent.adapters import specs
from muster_cluster_agent.domain.kubernetes import manifests, resources, run_objects, storage, workload_objects
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.model import Assignment, Revision, Run
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan, replica_plans
from muster_kernel import ids
from tests.support.kubernetes_pods import OWNER

ID = "33333333-3333-4333-8333-333333333333"
BASE = f"w-{ids.digest(ID)}"


def plan(**fields: Any) -> ReplicaPlan:
    """The one replica of a training with these fields."""
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, image="i", **fields)
    revision = Revision(1, 0, specs.pattern(spec), specs.template(spec, containers=True), (Run("worker", 0, 1, "n-7"),))
    assignment = Assignment(ID, 1, "", 1, (revision,), project="p", namespace="runai-p", name="bert")
    return replica_plans(assignment, revision)[0]


def mounted(**fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one volume of a pod, and its mount."""
    spec = manifests.pod(OWNER, plan(**fields), Style(), "uid")["spec"]
    (volume,), (mount,) = spec["volumes"], spec["containers"][0]["volumeMounts"]
    assert volume.pop("name") == mount.pop("name")
    return volume, mount


def claim(**fields: Any) -> storage_pb2.PersistentVolumeClaim:
    return storage_pb2.PersistentVolumeClaim(label="data", path="/data", **fields)


@pytest.mark.parametrize(
    ("fields", "volume", "mount"),
    [
        (
            {"nfs": [storage_pb2.NfsVolume(label="n", path="/export", server="nas", mount_path="/n", read_only=True)]},
            {"nfs": {"server": "nas", "path": "/export", "readOnly": True}},
            {"mountPath": "/n", "readOnly": True},
        ),
        (
            {"volumes": [storage_pb2.HostPath(label="h", path="/scratch", mount_path="/s")], "mount_propagation": True},
            {"hostPath": {"path": "/scratch"}},
            {"mountPath": "/s", "mountPropagation": "HostToContainer"},
        ),
        (
            {"volumes": [storage_pb2.HostPath(label="h", path="/export", mount_path="/s", nfs_server="nas")]},
            {"nfs": {"server": "nas", "path": "/export", "readOnly": False}},
            {"mountPath": "/s"},
        ),
        (
            {"config_map_volumes": [storage_pb2.ConfigMapVolume(label="c", config_map="conf", mount_path="/c")]},
            {"configMap": {"name": "conf"}},
            {"mountPath": "/c", "readOnly": True},
        ),
        (
            {"secret_volumes": [storage_pb2.SecretVolume(label="c", secret="keys", mount_path="/c")]},
            {"secret": {"secretName": "keys"}},
            {"mountPath": "/c", "readOnly": True},
        ),
        (
            {
                "data_volumes": [
                    storage_pb2.DataVolume(label="d", id="33333333-aaaa-4333-8333-333333333333", mount_path="/d")
                ]
            },
            {"persistentVolumeClaim": {"claimName": "33333333-aaaa-4333-8333-333333333333", "readOnly": False}},
            {"mountPath": "/d"},
        ),
        (
            {"empty_dir_volumes": [storage_pb2.EmptyDirVolume(label="e", path="/e")]},
            {"emptyDir": {}},
            {"mountPath": "/e"},
        ),
        (
            {"pvcs": [claim(existing_pvc=True, claim_name="corpus", read_only=True)]},
            {"persistentVolumeClaim": {"claimName": "corpus", "readOnly": True}},
            {"mountPath": "/data", "readOnly": True},
        ),
        (
            {"pvcs": [claim(size="10Gi")]},
            {"persistentVolumeClaim": {"claimName": f"{BASE}-data", "readOnly": False}},
            {"mountPath": "/data"},
        ),
        (
            {"create_home_dir": True, "username": "ann.b@example.org"},
            {"emptyDir": {}},
            {"mountPath": "/home/annb"},
        ),
    ],
)
def test_a_volume_is_where_its_spec_says(fields: dict[str, Any], volume: dict[str, Any], mount: dict[str, Any]) -> None:
    assert mounted(**fields) == (volume, mount)


def test_what_a_layer_has_taken_out_is_not_mounted() -> None:
    out = storage_pb2.EmptyDirVolume(label="e", path="/e", deleted=True)
    assert "volumes" not in manifests.pod(OWNER, plan(empty_dir_volumes=[out]), Style(), "uid")["spec"]


def test_a_new_claim_outlives_the_run_unless_it_is_ephemeral() -> None:
    kept = claim(size="10Gi", storage_class="fast", read_write_many=True)
    gone = storage_pb2.PersistentVolumeClaim(label="tmp", path="/tmp2", size="1Gi", ephemeral=True)
    made = plan(pvcs=[kept, gone])
    ((resource, manifest),) = workload_objects.objects_of(OWNER, made, Urls())
    assert (resource, manifest["metadata"]["name"]) == (resources.CLAIM, f"{BASE}-data")
    assert manifest["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": str(10 << 30)}},
        "storageClassName": "fast",
    }
    ((resource, manifest),) = run_objects.objects_of(OWNER, made, None)
    assert (resource, manifest["metadata"]["name"]) == (resources.CLAIM, f"{made.gang}-tmp")
    assert manifest["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert "ownerReferences" not in run_objects.with_root(resource, manifest, made, "uid")["metadata"]


def test_a_raw_device_is_no_folder() -> None:
    block = claim(size="1Gi", volume_mode=storage_pb2.VOLUME_MODE_BLOCK)
    made = plan(pvcs=[block])
    main = manifests.pod(OWNER, made, Style(), "uid")["spec"]["containers"][0]
    assert main["volumeDevices"] == [{"name": "v0", "devicePath": "/data"}]
    assert "volumeMounts" not in main
    assert storage.claims_of(made, ephemeral=False)[0][1]["volumeMode"] == "Block"


def test_what_is_on_a_claim_belongs_to_the_group() -> None:
    fields = {"uid_gid_source": workload_pb2.UID_GID_SOURCE_CUSTOM, "run_as_gid": 7}
    security = manifests.pod(OWNER, plan(pvcs=[claim(size="1Gi")], **fields), Style(), "uid")["spec"]["securityContext"]
    assert (security["fsGroup"], security["fsGroupChangePolicy"]) == (7, "OnRootMismatch")
    assert "fsGroup" not in manifests.pod(OWNER, plan(**fields), Style(), "uid")["spec"]["securityContext"]


def test_a_home_is_the_users_unless_they_say_otherwise() -> None:
    def home(**fields: Any) -> str:
        main = manifests.pod(OWNER, plan(create_home_dir=True, **fields), Style(), "uid")["spec"]["containers"][0]
        return str({one["name"]: one["value"] for one in main["env"]}["HOME"])

    assert home() == "/home/muster"
    said = workload_pb2.EnvironmentVariable(label="HOME", value="/w")
    assert home(environment=[said]) == "/w"


@pytest.mark.parametrize(
    "fields",
    [
        {
            "secret_volumes": [
                storage_pb2.SecretVolume(label="c", secret="w-aaaaaaaaaaaaaaaaaaaa-g1-a0-ssh", mount_path="/c")
            ]
        },
        {"config_map_volumes": [storage_pb2.ConfigMapVolume(label="c", config_map="muster-agent", mount_path="/c")]},
        {"pvcs": [claim(existing_pvc=True, claim_name="w-aaaaaaaaaaaaaaaaaaaa-data")]},
        {"pvcs": [claim(size="1Gi", claim_name="w-aaaaaaaaaaaaaaaaaaaa-data")]},
        {"image_pull_secrets": workload_pb2.StringList(values=["w-aaaaaaaaaaaaaaaaaaaa-g1-a0-cred-worker"])},
        {
            "environment": [
                workload_pb2.EnvironmentVariable(label="K", value="SECRET:w-aaaaaaaaaaaaaaaaaaaa-g1-a0-cred-worker,K")
            ]
        },
        {
            "git_sync": [
                storage_pb2.GitRepository(
                    repository="https://evil.example/x",
                    path="/x",
                    secret_name="w-aaaaaaaaaaaaaaaaaaaa-g1-a0-cred-worker",
                )
            ]
        },
    ],
)
def test_what_muster_made_for_another_workload_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidCommand, match="Muster's own"):
        storage.check_names(plan(**fields))


def test_what_muster_made_for_this_workload_and_names_of_users_are_not() -> None:
    storage.check_names(plan(pvcs=[claim(existing_pvc=True, claim_name=f"{BASE}-data")]))
    storage.check_names(plan(pvcs=[claim(existing_pvc=True, claim_name="w-data")]))
