"""What the local back end does with each field of the workload language.

What only changes how a container is made has no effect: there is no container here. What would make another workload
of it is refused.
"""

from __future__ import annotations

from typing import Final

from muster_cluster_agent.adapters.support import CONTROL_PLANE, Support

LOCAL: Final = Support(
    honoured=frozenset(
        {"args", "clean_pod_policy", "command", "completions", "cpu", "cpu_limit", "environment"}
        | {"framework", "gpu_devices_request", "gpu_memory_request", "gpu_portion_request"}
        | {"gpu_request_type", "master_spec", "memory", "memory_limit", "mig_profile", "notebook_token"}
        | {"parallelism", "ports", "processes", "readiness_probe", "slots_per_worker", "workers"}
        | {"working_dir"}
    ),
    no_matter=CONTROL_PLANE,
    ignored=frozenset(
        {"allow_privilege_escalation", "autoscaler_class", "capabilities", "config_map_volumes"}
        | {"create_home_dir", "data_volumes", "drop_all_capabilities", "empty_dir_volumes"}
        | {"exposed_urls", "gpu_memory_limit", "gpu_portion_limit", "host_ipc", "host_network", "image"}
        | {"image_pull_policy", "image_pull_secrets", "is_private_service_url", "large_shm", "metric"}
        | {"metric_name", "mount_propagation", "nfs", "pvcs", "read_only_root_filesystem", "run_as_gid"}
        | {"run_as_non_root", "run_as_uid", "run_as_user", "scale_to_zero_retention_seconds"}
        | {"seccomp_profile", "secret_volumes", "service_type", "stdin", "supplemental_groups", "target"}
        | {"tensorboard_logdir", "tty", "uid_gid_source", "volumes"}
    ),
    # Code and data that would not be there, and what a cluster has to have.
    refused=frozenset({"git_sync", "jupyter", "s3", "tensorboard"}),
    # A command that misses its credential fails somewhere in the middle.
    refused_values=("environment=SECRET", "notebookToken=SECRET"),
    because="the local back end runs commands on the machine itself",
)
