"""What a Kubernetes cluster needs for Muster, judged from what it says about itself (kubernetes.md 14.3).

Called by `muster clusters check` through the agent. Pure: `adapters/kubernetes/checks.py` asks the API server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from muster_cluster_agent.domain.findings import Finding, error, ok, warning
from muster_cluster_agent.domain.kubernetes.device_slices import NodeDevices
from muster_cluster_agent.domain.kubernetes.hami import ALLOCATED, REGISTERED
from muster_cluster_agent.domain.kubernetes.manifests import MAIN, Style, classes_of
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.nodes import (
    Counting,
    KubernetesNode,
    device_units,
    is_shared,
    model_of,
    product_of,
)
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.kubernetes.roots import Namespace
from muster_kernel.agent_rights import Right

Json = Mapping[str, Any]
OLDEST: Final = (1, 30)
NEWEST: Final = (1, 35)
"""The versions of Kubernetes that Muster supports."""
MOST_SKEW: Final = 5.0
"""Seconds by which the clocks of the agent and the API server may differ."""
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_NAMED: Final = 5  # nodes or namespaces in one line


def version(raw: Json) -> Finding:
    """The version, of the API server's own words (`/version`)."""
    text = str(raw.get("gitVersion", "?"))
    try:
        found = int(raw["major"]), int(str(raw["minor"]).rstrip("+"))
    except (KeyError, ValueError):
        return warning("version", f"the API server reports the version {text!r}, which cannot be read")
    if found < OLDEST:
        return error("version", f"Kubernetes {text} is too old: upgrade it to {_dotted(OLDEST)} or newer")
    if found > NEWEST:
        return warning(
            "version",
            f"Kubernetes {text} is newer than {_dotted(NEWEST)}, the newest that Muster supports: upgrade Muster",
        )
    return ok("version", f"Kubernetes {text}")


def clock(skew: float | None) -> Finding:
    """skew: seconds by which the API server's clock is ahead of the agent's; None: it has not told the time."""
    if skew is None:
        return warning("clock", "the API server sends no Date header: its clock cannot be compared")
    if abs(skew) > MOST_SKEW:
        way = "ahead of" if skew > 0 else "behind"
        return error("clock", f"the API server's clock is {abs(skew):.0f} s {way} the agent's: synchronise both")
    return ok("clock", "the clocks agree")


def rights(denied: Sequence[tuple[Right, str, str, str]], asked: int) -> Iterable[Finding]:
    """denied: each right that is missing, with the resource, the verb and the namespace (empty: the whole cluster)."""
    if not denied:
        yield ok("rights", f"all {asked} rights are granted")
    for right, resource, verb, namespace in denied:
        named = f"{resource}.{right.group}" if right.group else resource
        where = f"namespace {namespace}" if namespace else str(right.scope)
        yield error(
            "rights",
            f"the agent may not {verb} {named} in {where}: run `muster clusters join` again and apply its output",
        )


def namespaces(found: Iterable[Namespace], *, managed: bool) -> Finding:
    """The namespaces of projects."""
    here = list(found)
    ending = sorted(one.name for one in here if one.terminating)
    if ending:
        return warning("namespaces", f"{_some(ending)} {_is(ending)} being deleted: nothing is placed there")
    if not here and not managed:
        return error("namespaces", "no namespace has the label muster.io/project=PROJECT: label those of your projects")
    names = sorted(one.name for one in here)
    return ok("namespaces", f"{_some(names)}" if names else "none yet; the agent makes them")


def priority_class(name: str, raw: Json | None) -> Finding:
    """The PriorityClass of the pods; None: it is not there."""
    subject = "priority class"
    if not name:
        return warning(
            subject,
            "the cluster file sets no `priority_class`, so pods may preempt others: set one that never preempts",
        )
    if raw is None:
        return error(subject, f"PriorityClass {name} is missing: create it with `preemptionPolicy: Never`")
    policy = raw.get("preemptionPolicy", "PreemptLowerPriority")
    if policy != "Never":
        return warning(subject, f"PriorityClass {name} has preemptionPolicy {policy}: set it to Never")
    return ok(subject, name)


def named_class(subject: str, kind: str, name: str, *, there: bool) -> Finding | None:
    """A class that the cluster file may name, such as the RuntimeClass of the pods; None: it names none."""
    if not name:
        return None
    if there:
        return ok(subject, name)
    return error(subject, f"{kind} {name} is missing: create it, or change the cluster file")


def storage_classes(found: Iterable[Json]) -> Finding:
    """The StorageClasses: a claim that names none needs a default."""
    classes = {str(one["metadata"]["name"]): one["metadata"].get("annotations") or {} for one in found}
    default = [name for name, said in classes.items() if said.get(_DEFAULT_CLASS) == "true"]
    if not classes:
        return warning("storage", "there is no StorageClass: new claims of workloads stay unbound")
    if not default:
        return warning(
            "storage", f"no StorageClass is the default one; claims have to name one of {_some(sorted(classes))}"
        )
    return ok("storage", f"claims get StorageClass {_some(sorted(default))} unless they name another")


def nodes(found: Iterable[KubernetesNode], counting: Counting, apart: Mapping[str, NodeDevices]) -> Iterable[Finding]:
    """The nodes, and whether what their labels and their resources say of GPUs agrees.

    apart: the devices of nodes whose drivers list them.
    """
    here = list(found)
    told = {*apart, *(one.name for one in here if one.hami is not None)}
    counts = {one.name: dict(one.allocatable.extended).get(counting.resource, 0) for one in here}
    counts = {name: 0 if name in told else count for name, count in counts.items()}
    labelled = {one.name for one in here if product_of(one) and one.name not in told}
    shared = {one.name for one in here if is_shared(one) and one.name not in told}
    if not here:
        yield error("nodes", "the cluster has no nodes")
        return
    silent = sorted(one.name for one in here if one.silent_since is not None)
    if silent:
        yield warning("nodes", f"{_some(silent)} {_is(silent)} not Ready: nothing is placed there")
    bare = sorted(name for name in labelled if not counts[name])
    if bare:
        yield error(
            "gpus", f"{_some(bare)} {_has(bare)} a GPU label but no {counting.resource}: check the device plugin"
        )
    unknown = sorted(name for name, count in counts.items() if count and name not in labelled)
    if unknown:
        yield warning(
            "gpus",
            f"{_some(unknown)} {_has(unknown)} GPUs of an unknown model: run GPU feature discovery, or label them",
        )
    if shared:
        names = sorted(shared)
        yield warning(
            "gpus",
            f"{_some(names)} {_is(names)} reported without GPUs: the cards are shared by time-slicing",
        )
    whole = sum(count for name, count in counts.items() if name not in shared)
    listed = sum(len(one.devices) for one in apart.values())
    more = f" and {listed} by device claims" if apart else ""
    how_many = f"{len(here)} {'node' if len(here) == 1 else 'nodes'}"
    yield ok("nodes", f"{how_many} with {whole} GPUs ({counting.resource}){more}")


def device_claims(
    found: Iterable[KubernetesNode],
    apart: Mapping[str, NodeDevices],
    counting: Counting,
    device_class: str,
    *,
    there: bool,
) -> Iterable[Finding]:
    """Devices that drivers list. there: whether the cluster has the class of the claims."""
    subject = "device claims"
    if not apart:
        return
    if not there:
        yield error(
            subject,
            f"DeviceClass {device_class} is missing: install it with the driver, or set `class` of `devices` in the "
            "cluster file",
        )
    both = sorted(one.name for one in found if one.name in apart and device_units(one.allocatable.extended, counting))
    if both:
        yield warning(
            subject,
            f"{_some(both)} {_has(both)} devices by a driver and by {counting.resource}: run one of the two there, "
            "since pods of others may hold a card that a claim is given",
        )
    partly = sorted(name for name, one in apart.items() if one.parts)
    if partly:
        yield warning(
            subject, f"{_some(partly)} {_has(partly)} parts of cards, which are left out: claims are for whole cards"
        )
    if there:
        yield ok(subject, f"{_some(sorted(apart))} {_has([*apart])} devices of class {device_class}")


def hami_nodes(
    found: Iterable[KubernetesNode], apart: Mapping[str, NodeDevices], unread: Collection[str], *, used: bool
) -> Iterable[Finding]:
    """Nodes that HAMi has registered.

    unread: nodes with pods of others of which it cannot be read what HAMi gave them. used: whether the cluster file
    lets HAMi give devices.
    """
    subject = "hami"
    here = {one.name: one.hami for one in found if one.hami is not None and one.name not in apart}
    if here and not used:
        yield warning(
            subject,
            f"{_some(sorted(here))} {_is([*here])} reported without GPUs: HAMi splits the cards, and the cluster file "
            "lets it give none; set `source: auto` of `devices` and `binder: pinned`",
        )
        return
    for name, one in sorted(here.items()):
        if one.problem:
            yield error(
                subject, f"the annotation {REGISTERED} of node {name} cannot be read ({one.problem}): check its plugin"
            )
    partly = sorted(name for name, one in here.items() if one.parts)
    if partly:
        yield warning(subject, f"{_some(partly)} {_has(partly)} cards that HAMi splits by MIG, which are left out")
    odd = sorted({*unread} & {*here})
    if odd:
        yield warning(
            subject,
            f"{_some(odd)} {_has(odd)} pods whose annotation {ALLOCATED} cannot be read: no device is given out there "
            "while they run",
        )
    cards = sum(len(one.devices) for one in here.values())
    if cards:
        names = sorted(name for name, one in here.items() if one.devices)
        yield ok(subject, f"{_some(names)} {_has(names)} {cards} devices, which HAMi gives whole and in parts")


def kai_nodes(found: Iterable[KubernetesNode], cards: Mapping[str, int], queue: str) -> Iterable[Finding]:
    """Nodes whose devices KAI gives. cards: how many each of them reports. queue: of pods with devices."""
    subject = "kai"
    here = sorted(name for name, count in cards.items() if count)
    unlabelled = sorted(node.name for node in found if cards.get(node.name) and not model_of(node)[1])
    if unlabelled:
        yield warning(
            subject,
            f"{_some(unlabelled)} {_has(unlabelled)} GPUs of unknown memory, of which KAI gives no amounts: run GPU "
            "feature discovery",
        )
    if here:
        total = sum(cards.values())
        yield ok(
            subject, f"{_some(here)} {_has(here)} {total} GPUs, which KAI gives whole and in parts to queue {queue}"
        )


def trial_pod(owner: Owner, namespace: str, style: Style) -> Manifest:
    """A pod as Muster makes them, without anything of a workload; it is shown to the API server and never made."""
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": MAIN, "image": "muster.invalid/check"}],
    }
    named = {
        **classes_of(style),
        "imagePullSecrets": [{"name": name} for name in style.pull_secrets],
        "tolerations": [*style.tolerate],
    }
    spec.update({key: value for key, value in named.items() if value})
    metadata = {"name": "muster-check", "namespace": namespace, "labels": owner.labels()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def trial(namespace: str, problem: str) -> Finding:
    """Whether a pod would be admitted to a namespace; problem: what the API server answered, empty: it would."""
    if not problem:
        return ok("admission", f"a pod would be admitted to namespace {namespace}")
    return error("admission", f"a pod would not be admitted to namespace {namespace}: {problem}")


def _dotted(found: tuple[int, int]) -> str:
    return f"{found[0]}.{found[1]}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
