"""Why a cluster does not take a replica: codes for the scheduler, sentences for people (kubernetes.md 9.2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster_cluster_agent.domain.actions import Answer, Outcome
from muster_cluster_agent.domain.kubernetes.manifests import MAIN
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.kubernetes.roots import Namespace
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_kernel.cluster_labels import MANAGED_BY
from muster_kernel.reasons import RefusalCode

TAKEN: Final = "MusterNameTaken"
"""The reason of an ApiError of Muster's own: a name that it needs belongs to another object."""
IN_USE: Final = "MusterNameInUse"
"""The same, where the object is Muster's own and belongs to another workload, which may be on its way out."""
AGAIN_SECONDS: Final = 30.0
"""How long a replica that was refused after its pod was made is not made again."""
_CONFLICT: Final = 409
_BAD: Final = frozenset({400, 422})
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_INVALID: Final = 422
_NODE_PORT: Final = "provided port is"  # .. already allocated, or not in the valid range
_RETRIED: Final = 500  # and above: the server's own trouble
_WEBHOOK: Final = "failed calling webhook"


def answer_of(status: int, reason: str, message: str) -> Answer:
    """What an error of the API server while a replica is made means for its assignment."""
    if status >= _RETRIED or status == 429 or reason == "Expired":  # noqa: PLR2004  too many requests
        return _webhook_failed(message) if is_of_webhook(message) else Answer(Outcome.UNKNOWN, message)
    if reason == IN_USE:
        return Answer(Outcome.REFUSED, message, RefusalCode.NAME_IN_USE)
    if reason == TAKEN or (status == _INVALID and _NODE_PORT in message):
        return Answer(Outcome.REFUSED, message, RefusalCode.NAME_CONFLICT)
    if status == _FORBIDDEN and "exceeded quota" in message:
        return Answer(Outcome.REFUSED, f"the namespace's quota is used up: {message}", RefusalCode.NAMESPACE_QUOTA)
    if status == _FORBIDDEN and "being terminated" in message:
        return Answer(Outcome.REFUSED, message, RefusalCode.NAMESPACE_NOT_OURS)
    if status == _NOT_FOUND or (status == _FORBIDDEN and "not found" in message):
        text = f"an object that the pod needs is missing: {message}"
        return Answer(Outcome.REFUSED, text, RefusalCode.MISSING_OBJECT)
    if status in _BAD or status == _FORBIDDEN:
        return Answer(Outcome.REFUSED, f"the cluster does not admit it: {message}", RefusalCode.ADMISSION_DENIED)
    return Answer(Outcome.UNKNOWN, message)


def _webhook_failed(message: str) -> Answer:
    """The refusal for a webhook that does not answer. Admission comes before an object is stored: nothing was made."""
    text = f"a webhook of the cluster does not answer, and nothing is admitted without it: {message}"
    return Answer(Outcome.REFUSED, text, RefusalCode.WEBHOOK_FAILED)


def is_of_webhook(message: str) -> bool:
    """Return whether the API server failed because a webhook, without which nothing is admitted, did not answer it."""
    return _WEBHOOK in message


def without_names(reason: str, message: str, plan: ReplicaPlan) -> str:
    """The API's message without the pod's name, so that the same refusal of its next incarnation has the same text."""
    if reason in {TAKEN, IN_USE}:  # the name is what it is about
        return message
    return message.replace(plan.name, "the pod").replace(plan.gang, "the run")


def namespace(name: str, project: str, found: Namespace | None) -> Answer:
    """The refusal of a namespace that is not this project's."""
    if found is None:
        text = f"namespace {name} is missing, or lacks the label muster.io/project={project}"
    elif found.terminating:
        text = f"namespace {name} is being deleted"
    elif found.project != project:
        text = f"namespace {name} belongs to project {found.project or 'none'}, not to {project}"
    else:
        text = (
            f"namespace {name} was made by another agent of Muster (cluster {found.cluster or 'not named'}): to use it "
            "here, remove its labels muster.io/origin and muster.io/cluster"
        )
    return Answer(Outcome.REFUSED, text, RefusalCode.NAMESPACE_NOT_OURS)


def taken(kind: str, metadata: Mapping[str, Any]) -> str:
    """The sentence about a name that another object has."""
    manager = (metadata.get("labels") or {}).get(MANAGED_BY, "another")
    return f"{kind} {metadata['namespace']}/{metadata['name']} is there already and belongs to {manager}"


def host_taken(host: str, metadata: Mapping[str, Any], namespace: str) -> str:
    """The sentence about a host of another Ingress. One in another namespace is not named: it is not the user's."""
    whose = f"Ingress {metadata['name']}" if metadata["namespace"] == namespace else "an Ingress of another namespace"
    return f"the host {host} belongs to {whose}: choose another one by `url` of exposedUrls"


def mutated(asked: Manifest, made: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths in which the pod that was made is another than the one that was asked for.

    What makes another replica of it: node, scheduler, image, command, devices. Labels, tolerations, variables and
    sidecars that a cluster adds are no mutation of this kind.
    """
    spec, found = asked["spec"], made["spec"]
    paths = [
        path
        for path, old, new in (
            (
                "spec.affinity.nodeAffinity",
                (spec.get("affinity") or {}).get("nodeAffinity"),
                (found.get("affinity") or {}).get("nodeAffinity"),
            ),
            ("spec.schedulerName", spec.get("schedulerName", found.get("schedulerName")), found.get("schedulerName")),
            ("spec.nodeName", spec.get("nodeName"), found.get("nodeName")),
            ("spec.resourceClaims", spec.get("resourceClaims"), found.get("resourceClaims") or None),
            ("spec.restartPolicy", spec["restartPolicy"], found.get("restartPolicy")),
        )
        if old != new
    ]
    mine = _named(spec["containers"]).get(MAIN, {})
    theirs = _named(found.get("containers") or ()).get(MAIN, {})
    # The API leaves out what is empty.
    words = ("image", "command", "args")
    paths += [f"spec.containers[{MAIN}].{key}" for key in words if (mine.get(key) or None) != (theirs.get(key) or None)]
    if _units(mine) != _units(theirs) or _claims(mine) != _claims(theirs):
        paths.append(f"spec.containers[{MAIN}].resources")
    return tuple(paths)


def mutation(paths: Iterable[str]) -> str:
    """The sentence about a pod that the cluster changed."""
    return f"the cluster's admission changed {', '.join(paths)} of the pod; exempt pods of Muster from that webhook"


def _named(containers: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {one["name"]: one for one in containers}


def _units(container: Mapping[str, Any]) -> dict[str, str]:
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: str(amount) for name, amount in limits.items() if "/" in name}


def _claims(container: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*((container.get("resources") or {}).get("claims") or ())]
