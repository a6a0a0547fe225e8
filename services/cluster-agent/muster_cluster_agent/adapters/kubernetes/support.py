"""What the Kubernetes back end does with each field of the workload language.

Workspaces, trainings, trials, gangs and services. What needs parts of a device is refused, so that the scheduler places
such work elsewhere and `muster why` says so. What needs an image of the cluster's or an address outside it is refused
unless the cluster's file gives them; what reaches into a node, unless the file allows it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from muster_cluster_agent.adapters.support import CONTROL_PLANE, Support
from muster_cluster_agent.domain.kubernetes.ingresses import GROUPS, USERS
from muster_cluster_agent.domain.kubernetes.manifests import Style

_MADE: Final = frozenset(
    {"allow_privilege_escalation", "annotations", "args", "capabilities", "clean_pod_policy", "command"}
    | {"completions", "config_map_volumes", "cpu", "cpu_limit", "create_home_dir", "data_volumes"}
    | {"drop_all_capabilities", "empty_dir_volumes", "environment", "extended_resources", "framework"}
    | {"gpu_devices_request", "gpu_portion_request", "gpu_request_type", "image", "image_pull_policy"}
    | {"image_pull_secrets", "labels", "large_shm", "master_spec", "memory", "memory_limit", "mig_profile", "nfs"}
    | {"notebook_token", "parallelism", "ports", "processes", "pvcs", "read_only_root_filesystem"}
    | {"readiness_probe", "run_as_gid", "run_as_non_root", "run_as_uid", "run_as_user", "seccomp_profile"}
    | {"secret_volumes", "service_type", "slots_per_worker", "stdin", "supplemental_groups", "tty"}
    | {"uid_gid_source", "workers", "working_dir"}
)
_NEEDS_MORE: Final = frozenset(
    {"exposed_urls", "git_sync", "gpu_memory_limit", "gpu_memory_request", "gpu_portion_limit"}
    | {"jupyter", "s3", "tensorboard", "tensorboard_logdir"}
)
_INTO_THE_NODE: Final = {
    "hostPath": frozenset({"mount_propagation", "volumes"}),
    "hostIpc": frozenset({"host_ipc"}),
    "hostNetwork": frozenset({"host_network"}),
}
_BY_GATEWAY: Final = (("exposedUrls=authorizedUsers", USERS), ("exposedUrls=authorizedGroups", GROUPS))
ALLOWABLE: Final = tuple(_INTO_THE_NODE)
"""What a cluster's file may allow."""
_BY_LOAD: Final = frozenset(
    {"autoscaler_class", "is_private_service_url", "metric", "metric_name", "scale_to_zero_retention_seconds", "target"}
)
KUBERNETES: Final = Support(
    honoured=_MADE,
    no_matter=CONTROL_PLANE - _MADE,
    ignored=_BY_LOAD,
    refused=_NEEDS_MORE.union(*_INTO_THE_NODE.values()),
    refused_values=("uidGidSource=fromIdpToken",),
    because="the Kubernetes back end does not scale by load",
    containers=True,
)


def support_of(allowed: AbstractSet[str], style: Style) -> Support:
    """What a cluster does whose file allows these of ALLOWABLE. style: what else its file says of pods."""
    images, urls = style.images, style.urls
    fields = frozenset[str]().union(*(_INTO_THE_NODE[word] for word in allowed))
    given = {
        "jupyter": images.notebook,
        "tensorboard": images.tensorboard,
        "tensorboard_logdir": images.tensorboard,
        "git_sync": images.git,
        "exposed_urls": urls.domain,
        "is_private_service_url": urls.domain,
    }
    fields |= {name for name, what in given.items() if what}
    # An address that is open to everyone is worse than none where its users were named.
    closed = [word for word, who in _BY_GATEWAY if not urls.knows(who)]
    return replace(
        KUBERNETES,
        honoured=KUBERNETES.honoured | fields,
        ignored=KUBERNETES.ignored - fields,
        refused=KUBERNETES.refused - fields,
        refused_values=(*KUBERNETES.refused_values, *closed),
        notebook=images.notebook,
    )
