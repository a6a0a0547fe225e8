"""What of the workload language the local back end looks at: everything else it ignores, saying so, or refuses.

Called for the cluster's profile, and for the condition that a running workload carries.
Holds: each field of the language is in one of four lists, so that a new field is a decision (a test). Ignored is what
only changes how a container is made: there is none here. Refused is what would make another workload of it.
"""

from __future__ import annotations

from typing import Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2

HONOURED: Final = frozenset(
    {
        "args",
        "clean_pod_policy",
        "command",
        "completions",
        "cpu",
        "cpu_limit",
        "environment",
        "framework",
        "gpu_devices_request",
    }
    | {
        "gpu_memory_request",
        "gpu_portion_request",
        "gpu_request_type",
        "master_spec",
        "memory",
        "memory_limit",
        "mig_profile",
    }
    | {"notebook_token", "parallelism", "ports", "processes", "readiness_probe", "slots_per_worker", "workers"}
    | {"working_dir"}
)
NOT_ITS_MATTER: Final = frozenset(  # what the control plane does with a workload, wherever it runs
    {"active", "annotations", "auto_deletion_seconds", "backoff_limit", "base_workload", "colossal", "ingress_url"}
    | {"kind", "labels", "max_replicas", "max_scale", "min_replicas", "min_scale", "mpi", "name", "name_prefix"}
    | {"node_pools", "non_preemptible", "preemptible", "preemption_limit", "priority_class", "related_urls"}
    | {"terminate_after_preemption", "usage", "user_id", "username"}
    | {"extended_resources", "node_type", "pod_affinity", "pod_affinity_scheduling_rule", "pod_affinity_topology"}
    | {"pod_anti_affinity", "pod_anti_affinity_scheduling_rule", "pod_anti_affinity_topology"}
    | {"clusters", "preferred_clusters", "data_label"}
    | {"tolerations", "topology_group", "topology_group_size", "topology_preferred", "topology_required"}
)
# Code and data that would not be there, and what a cluster has to have: to run all the same would be another workload.
REFUSED: Final = frozenset({"git_sync", "jupyter", "s3", "tensorboard"})
IGNORED: Final = frozenset(
    {"allow_privilege_escalation", "autoscaler_class", "capabilities", "config_map_volumes"}
    | {"create_home_dir", "data_volumes", "drop_all_capabilities", "empty_dir_volumes", "exposed_urls"}
    | {"gpu_memory_limit", "gpu_portion_limit", "host_ipc", "host_network", "image", "image_pull_policy"}
    | {"image_pull_secrets", "is_private_service_url", "large_shm", "metric", "metric_name"}
    | {"mount_propagation", "nfs", "pvcs"}
    | {"read_only_root_filesystem", "run_as_gid", "run_as_non_root", "run_as_uid", "run_as_user"}
    | {"scale_to_zero_retention_seconds", "seccomp_profile", "secret_volumes", "service_type", "stdin"}
    | {"supplemental_groups", "target", "tensorboard_logdir", "tty", "uid_gid_source", "volumes"}
)
SECRET: Final = "SECRET:"  # noqa: S105  how a value names a Secret, which no machine here has


def _words() -> dict[str, str]:
    fields = workload_pb2.WorkloadSpec.DESCRIPTOR.fields
    return {field.name: field.GetOptions().Extensions[options_pb2.field].yaml or field.name for field in fields}


_WORDS: Final = _words()
IGNORED_FIELDS: Final = tuple(sorted(_WORDS[name] for name in IGNORED))
# Gangs of these find each other by settings of their own (TF_CONFIG and the like), which nobody makes here; and a
# command that misses its credential fails somewhere in the middle.
_REFUSED_WORDS: Final = ("environment=SECRET", "jobType=JAX", "jobType=TF", "jobType=XGBoost", "notebookToken=SECRET")
REFUSED_FIELDS: Final = tuple(sorted([*(_WORDS[name] for name in REFUSED), *_REFUSED_WORDS]))


def ignored_by(spec: workload_pb2.WorkloadSpec) -> tuple[str, ...]:
    """What a spec says that has no effect here, in the words of its documents."""
    said = _ignored(spec)
    # The master's fields are complete: what it shares with the workers is said once.
    return (*said, *(f"masterSpec {word}" for word in _ignored(spec.master_spec) if word not in said))


def _ignored(spec: workload_pb2.WorkloadSpec) -> list[str]:
    return [_WORDS[field.name] for field, _ in spec.ListFields() if field.name in IGNORED]
