"""What the Kubernetes back end does with each field of the workload language.

One container a replica: workspaces, trainings, trials, gangs and services. What needs volumes, parts of a device or an
address outside the cluster is refused, so that the scheduler places such work elsewhere and `muster why` says so.
"""

from __future__ import annotations

from typing import Final

from muster_cluster_agent.adapters.support import CONTROL_PLANE, Support

_MADE: Final = frozenset(
    {"allow_privilege_escalation", "annotations", "args", "capabilities", "command", "completions", "cpu"}
    | {"cpu_limit", "drop_all_capabilities", "environment", "extended_resources", "gpu_devices_request"}
    | {
        "gpu_portion_request",
        "gpu_request_type",
        "image",
        "image_pull_policy",
        "image_pull_secrets",
        "labels",
        "large_shm",
        "memory",
    }
    | {"clean_pod_policy", "framework", "master_spec", "processes", "slots_per_worker", "workers"}
    | {"ports", "readiness_probe", "service_type"}
    | {"memory_limit", "notebook_token", "parallelism", "read_only_root_filesystem", "run_as_gid"}
    | {"run_as_non_root", "run_as_uid", "run_as_user", "seccomp_profile", "stdin", "supplemental_groups", "tty"}
    | {"uid_gid_source", "working_dir"}
)
_NEEDS_MORE: Final = frozenset(
    {"config_map_volumes", "create_home_dir", "data_volumes", "empty_dir_volumes"}
    | {"exposed_urls", "git_sync", "gpu_memory_limit", "gpu_memory_request", "gpu_portion_limit"}
    | {"host_ipc", "host_network", "jupyter", "mig_profile"}
    | {"mount_propagation", "nfs", "pvcs", "s3", "secret_volumes", "tensorboard"}
    | {"tensorboard_logdir", "volumes"}
)
_BY_LOAD: Final = frozenset(
    {"autoscaler_class", "is_private_service_url", "metric", "metric_name", "scale_to_zero_retention_seconds", "target"}
)
KUBERNETES: Final = Support(
    honoured=_MADE,
    no_matter=CONTROL_PLANE - _MADE,
    ignored=_BY_LOAD,
    refused=_NEEDS_MORE,
    refused_values=("uidGidSource=fromIdpToken",),
    because="the Kubernetes back end does not scale by load",
    containers=True,
)
