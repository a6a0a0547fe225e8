"""Routes of the vendor's client that Muster does not offer: each answers 501 with its reason, none is a mere 404.

Called after all other areas. Holds: what an area serves is never answered from here; the workload language needs none
of these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response

from muster_submission.rest.errors import NotOffered
from muster_submission.rest.operation import Operation, refusal

_ASSETS: Final = (
    "Muster keeps no assets: what workloads share is a template (a document with `usage: Template`), made with "
    "`muster templates` or TemplatesService, and credentials are Secrets of the cluster"
)
_PEOPLE: Final = (
    "Muster keeps no people and no groups: they come from the issuer of their tokens, and "
    "/api/v1/authorization/access-rules gives them roles"
)
_SCOPES: Final = (
    "its kinds of resources are those of a console; what a caller may do in a place is answered by `muster access can` "
    "and AccessService.CanI, and where their roles hold by WhoAmI"
)
_DOWNLOADS: Final = (
    "there is nothing to download: the command line is a Python package, and agents are a container image"
)
_POLICIES: Final = "the operator gives policies to the policy service as a document; PoliciesService shows what holds"
_LOOKS: Final = "there is no web console whose looks or settings could be kept"
_OLDER: Final = "this is the older form of a route: {} has the same, for all clusters at once"
_TOKENS: Final = "tokens come from POST /api/v1/token"

_PLAIN: Final = "GET POST"
_ONE: Final = "GET PUT DELETE"
_TABLE: Final[Sequence[tuple[str, Sequence[tuple[str, str]]]]] = (
    (
        _ASSETS,
        (
            *(
                entry
                for asset in (
                    "compute",
                    "credentials/access-key",
                    "credentials/docker-registry",
                    "credentials/generic-secret",
                    "credentials/password",
                    "datasource/config-map",
                    "datasource/git",
                    "datasource/host-path",
                    "datasource/nfs",
                    "datasource/pvc",
                    "datasource/s3",
                    "environment",
                    "registries",
                    "workload-template",
                )
                for entry in ((_PLAIN, f"/api/v1/asset/{asset}"), (_ONE, f"/api/v1/asset/{asset}/{{assetId}}"))
            ),
            ("GET", "/api/v1/asset/credentials"),
            ("GET", "/api/v1/asset/datasource"),
            ("GET", "/api/v1/asset/registries/{assetId}/repositories"),
            ("GET", "/api/v1/asset/registries/{assetId}/repositories/tags"),
            (_PLAIN, "/api/v1/datavolumes"),
            ("GET PATCH DELETE", "/api/v1/datavolumes/{dataVolumeId}"),
            ("GET PATCH", "/api/v1/datavolumes/{dataVolumeId}/shared-scopes"),
        ),
    ),
    (
        _PEOPLE,
        (
            (_PLAIN, "/api/v1/users"),
            ("GET DELETE", "/api/v1/users/{userId}"),
            ("POST", "/api/v1/users/{userId}/logout"),
            ("POST", "/api/v1/users/{userId}/password"),
            ("POST", "/api/v1/me/password"),
            (_PLAIN, "/v1/k8s/users"),
            ("GET", "/v1/k8s/users/roles"),
            (_ONE, "/v1/k8s/users/{userId}"),
            ("GET", "/v1/k8s/users/{userId}/roles"),
            (_PLAIN, "/v1/k8s/groups"),
            (_ONE, "/v1/k8s/groups/{groupId}"),
            ("PUT", "/v1/k8s/clusters/{clusterId}/departments/{departmentId}/access-control"),
        ),
    ),
    (_SCOPES, (("POST", "/api/v1/authorization/permitted-scopes"),)),
    (
        _DOWNLOADS,
        (
            ("GET", "/api/v1/apps/installer"),
            ("GET", "/api/v1/cli/docs/{file}"),
            ("GET", "/api/v1/cli/dist/{system}/{architecture}/runai"),
            ("GET", "/api/v1/cli/installer/{system}"),
            ("GET", "/api/v1/cli/installer/{system}/commands"),
            ("GET", "/api/v1/clusters/{clusterId}/cluster-install-info"),
            ("GET", "/v1/k8s/admin-cli/{system}"),
            ("GET", "/v1/k8s/admin-cli/{system}/checksum"),
            ("GET", "/v1/k8s/admin-cli/{system}/{version}"),
            ("GET", "/v1/k8s/admin-cli/{system}/{version}/checksum"),
            ("GET", "/v1/k8s/clusters/{clusterId}/installfile"),
        ),
    ),
    (
        _POLICIES,
        (
            ("GET", "/api/v2/policy"),
            *(
                ("GET PUT PATCH DELETE", f"/api/v2/policy/{kind}")
                for kind in ("workspaces", "trainings", "distributed", "inferences")
            ),
        ),
    ),
    (
        _LOOKS,
        (
            (_PLAIN, "/api/v1/logo"),
            (_PLAIN, "/v1/k8s/tenant/{tenantId}/logo"),
            ("GET PUT", "/v1/k8s/setting"),
            ("GET", "/v1/k8s/setting/{key}"),
        ),
    ),
    (
        _OLDER.format("/api/v1/org-unit/departments"),
        (
            (_PLAIN, "/v1/k8s/clusters/{clusterId}/departments"),
            (_ONE, "/v1/k8s/clusters/{clusterId}/departments/{departmentId}"),
            ("GET", "/v1/k8s/clusters/{clusterId}/departments/metrics"),
            ("GET", "/v1/k8s/clusters/{clusterId}/departments/{departmentId}/metrics"),
        ),
    ),
    (
        _OLDER.format("/api/v1/org-unit/projects"),
        (
            (_PLAIN, "/v1/k8s/clusters/{clusterId}/projects"),
            (_ONE, "/v1/k8s/clusters/{clusterId}/projects/{projectId}"),
            ("GET", "/v1/k8s/clusters/{clusterId}/projects/metrics"),
            ("GET", "/v1/k8s/clusters/{clusterId}/projects/{projectId}/metrics"),
        ),
    ),
    (
        _OLDER.format("/api/v1/workloads"),
        (
            ("GET", "/v1/k8s/clusters/{clusterId}/jobs"),
            ("GET", "/v1/k8s/clusters/{clusterId}/jobs/count"),
            ("GET", "/v1/k8s/clusters/{clusterId}/jobs/{jobId}/pods"),
            ("GET", "/v1/k8s/clusters/{clusterId}/pods"),
            ("GET", "/v1/k8s/clusters/{clusterId}/deployments"),
            ("GET", "/v1/k8s/clusters/{clusterId}/deployments/{deploymentId}"),
        ),
    ),
    (
        _OLDER.format("/api/v1/clusters/{clusterUuid}/metrics"),
        (("GET", "/v1/k8s/clusters/{clusterId}/metrics"),),
    ),
    (
        _OLDER.format("/api/v1/apps"),
        (
            (_PLAIN, "/v1/k8s/apps"),
            (_ONE, "/v1/k8s/apps/{appId}"),
            ("POST", "/v1/k8s/apps/{appId}/secret"),
        ),
    ),
    (
        _TOKENS,
        (
            ("POST", "/v1/k8s/auth/oauth/apptoken"),
            ("POST", "/v1/k8s/auth/oauth/tokens/refresh"),
            ("GET", "/v1/k8s/auth/token/exchange"),
        ),
    ),
    (
        "storage classes are known to each cluster alone: ask its API server",
        (("GET", "/v1/k8s/clusters/{clusterId}/storage-classes"),),
    ),
    (
        "a cluster leaves the fleet by `muster clusters leave`, which also has its agent delete what it made",
        (("DELETE", "/api/v1/clusters/{clusterUuid}"),),
    ),
)
_PARAMETER: Final = re.compile(r"{[^}]*}")


def operations(served: Sequence[Operation]) -> list[Operation]:
    """What is left of the table beside `served`."""
    taken = {(one.method, _PARAMETER.sub("{}", one.path)) for one in served}
    return [
        _operation(method, path, reason)
        for reason, entries in _TABLE
        for methods, path in entries
        for method in methods.split()
        if (method, _PARAMETER.sub("{}", path)) not in taken
    ]


def _operation(method: str, path: str, reason: str) -> Operation:
    async def answer(_: Request) -> Response:
        raise NotOffered(f"{method} {path} is not offered: {reason}")

    words = re.sub(r"[^a-z0-9]+", "_", f"{method}{path}".lower()).strip("_")
    return Operation(
        cast("Any", method), path, words, "Not offered", reason, answer, {501: refusal(reason)}, shown=False
    )
