"""A sample of each field that the Kubernetes back end honours, and everything that is made of a workload that has it.

Used by the test that each field has its effect, and by the one that a real API server accepts what is made.
"""

from __future__ import annotations

from typing import Any, Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import placement_pb2, storage_pb2, workload_pb2
from muster_cluster_agent.adapters import specs
from muster_cluster_agent.adapters.notebooks import with_notebook_defaults
from muster_cluster_agent.domain.kubernetes import manifests, run_objects, workload_objects
from muster_cluster_agent.domain.kubernetes.extra_containers import Images
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.kubernetes.run_objects import KeyPair
from muster_cluster_agent.domain.model import Assignment, Pattern, Revision, Run
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from tests.support.kubernetes_pods import OWNER

NAMESPACE: Final = "runai-p"
STYLE: Final = Style(
    images=Images(notebook="notebook", tensorboard="tensorboard", git="git"),
    urls=Urls("lab.example", "nginx", annotations=(("auth", "https://auth.example/?users={users}"),)),
)
"""A cluster that gives all that it can give."""
GANG: Final = {
    "kind": options_pb2.KIND_DISTRIBUTED,
    "framework": workload_pb2.FRAMEWORK_MPI,
    "command": "./solve",
    "workers": 2,
}
MASTER: Final = workload_pb2.WorkloadSpec(command="./other", image="i")
# Each field: the other fields that it needs, and its own value.
SAMPLES: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "allow_privilege_escalation": ({}, False),
    "annotations": ({}, [workload_pb2.MapEntry(label="a", value="b")]),
    "args": ({}, "--x"),
    "capabilities": ({}, workload_pb2.StringList(values=["SYS_PTRACE"])),
    "command": ({}, "./run"),
    "config_map_volumes": ({}, [storage_pb2.ConfigMapVolume(label="c", config_map="c", mount_path="/c")]),
    "cpu": ({}, "1"),
    "cpu_limit": ({}, "2"),
    "create_home_dir": ({}, True),
    "data_volumes": ({}, [storage_pb2.DataVolume(label="d", id="d", mount_path="/d")]),
    "drop_all_capabilities": ({}, True),
    "empty_dir_volumes": ({}, [storage_pb2.EmptyDirVolume(label="e", path="/e")]),
    "environment": ({}, [workload_pb2.EnvironmentVariable(label="A", value="b")]),
    "exposed_urls": ({}, [workload_pb2.ExposedUrl(label="u", container=80)]),
    "extended_resources": ({}, [placement_pb2.ExtendedResource(label="r", resource="rdma/hca", quantity="1")]),
    "framework": ({**GANG}, workload_pb2.FRAMEWORK_TF),
    "git_sync": (
        {},
        [
            storage_pb2.GitRepository(
                label="g", repository="https://git.example/a", path="/code", username="muster-sealed:a:1"
            )
        ],
    ),
    "host_ipc": ({}, True),
    "host_network": ({}, True),
    "image": ({}, "other"),
    "image_pull_policy": ({}, workload_pb2.IMAGE_PULL_POLICY_ALWAYS),
    "image_pull_secrets": ({}, workload_pb2.StringList(values=["registry"])),
    "is_private_service_url": ({"exposed_urls": [workload_pb2.ExposedUrl(label="u", container=80)]}, True),
    "jupyter": ({}, True),
    "labels": ({}, [workload_pb2.MapEntry(label="a", value="b")]),
    "large_shm": ({}, True),
    "master_spec": ({**GANG}, MASTER),
    "memory": ({}, "1Gi"),
    "memory_limit": ({}, "2Gi"),
    "mount_propagation": ({"volumes": [storage_pb2.HostPath(label="h", path="/h", mount_path="/h")]}, True),
    "nfs": ({}, [storage_pb2.NfsVolume(label="n", path="/n", server="nas", mount_path="/n")]),
    "notebook_token": ({}, "secret"),
    "ports": ({}, [workload_pb2.Port(label="p", container=80)]),
    "processes": ({**GANG}, 3),
    "pvcs": ({}, [storage_pb2.PersistentVolumeClaim(label="c", path="/c", size="1Gi")]),
    "read_only_root_filesystem": ({}, True),
    "readiness_probe": (
        {"ports": [workload_pb2.Port(label="p", container=80)]},
        workload_pb2.ReadinessProbe(path="/", port=80),
    ),
    "run_as_gid": ({"uid_gid_source": workload_pb2.UID_GID_SOURCE_CUSTOM}, 7),
    "run_as_non_root": ({}, True),
    "run_as_uid": ({"uid_gid_source": workload_pb2.UID_GID_SOURCE_CUSTOM}, 7),
    "seccomp_profile": ({}, workload_pb2.SECCOMP_PROFILE_UNCONFINED),
    "secret_volumes": ({}, [storage_pb2.SecretVolume(label="s", secret="s", mount_path="/s")]),
    "service_type": (
        {"ports": [workload_pb2.Port(label="p", container=80)]},
        workload_pb2.SERVICE_TYPE_NODE_PORT,
    ),
    "slots_per_worker": ({**GANG}, 4),
    "stdin": ({}, True),
    "supplemental_groups": ({"uid_gid_source": workload_pb2.UID_GID_SOURCE_CUSTOM}, "7"),
    "tensorboard": ({"tensorboard_logdir": "/logs"}, True),
    "tensorboard_logdir": ({"tensorboard": True, "tensorboard_logdir": "/logs"}, "/other"),
    "tty": ({}, True),
    "uid_gid_source": ({"run_as_uid": 7}, workload_pb2.UID_GID_SOURCE_CUSTOM),
    "volumes": ({}, [storage_pb2.HostPath(label="h", path="/h", mount_path="/h")]),
    "working_dir": ({}, "/w"),
}
# The scheduler counts replicas and devices by these; what a pod gets of them stands in its assignment.
IN_THE_ASSIGNMENT: Final = frozenset(
    {"clean_pod_policy", "completions", "gpu_devices_request", "gpu_portion_request", "gpu_request_type", "mig_profile"}
    | {"parallelism", "run_as_user", "workers"}
)


def plans_of(**fields: Any) -> tuple[ReplicaPlan, ...]:
    """The replicas of a workload with these fields, with a launcher where its framework has one."""
    said = workload_pb2.WorkloadSpec(**{"kind": options_pb2.KIND_TRAINING, "image": "i", **fields})
    spec = with_notebook_defaults(said, STYLE.images.notebook)
    runs = [Run("worker", 0, max(1, spec.workers), "n-7")]
    if spec.HasField("master_spec") or specs.pattern(spec) is Pattern.MPI:
        runs.append(Run("launcher", 0, 1, "n-7"))
    revision = Revision(
        1,
        0,
        specs.pattern(spec),
        specs.template(spec, containers=True),
        tuple(runs),
        master=specs.template(spec.master_spec, containers=True) if spec.HasField("master_spec") else None,
        slots_per_worker=spec.slots_per_worker or 1,
        processes=spec.processes,
        framework=specs.framework(spec),
    )
    assignment = Assignment("33333333-3333-4333-8333-333333333333", 1, "", 1, (revision,), "p", NAMESPACE, "bert")
    return replica_plans(assignment, revision)


def made_of(**fields: Any) -> list[tuple[str, Manifest]]:
    """Path and body of each object that is made of a workload's first replica and of its last."""
    plans = plans_of(**fields)
    found: list[tuple[str, Manifest]] = []
    for plan in (plans[0], plans[-1]):
        pod = manifests.pod(OWNER, plan, STYLE, "uid", workload_objects.addresses_of(plan, STYLE.urls))
        found.append((f"/api/v1/namespaces/{NAMESPACE}/pods", pod))
        of_run = run_objects.objects_of(OWNER, plan, KeyPair("a", "b"))
        found += [(each.path(NAMESPACE), run_objects.with_root(each, made, plan, "uid")) for each, made in of_run]
        found += [(each.path(NAMESPACE), made) for each, made in workload_objects.objects_of(OWNER, plan, STYLE.urls)]
    return found
