"""What became of the pods of a cluster, of every version that its etcd ever had of them and of its audit log.

Called by `on_kubernetes.py`, and by its own tests on histories with planted faults. Pure: values in, entries and
findings out. The revision of etcd is the clock: one order for all that has happened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes import marks
from tests.chaos.checker import WHOLE, Entry, Held

GPU: Final = "nvidia.com/gpu"
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_CREATED: Final = 201
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """A pod as etcd had it from a revision on. key: `namespace/name`. value None: it was deleted."""

    revision: int
    key: str
    value: Json | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call that asked for a new pod, as the audit log has it. code 0: the server never said how it ended."""

    audit_id: str
    name: str
    code: int


def entries_of(versions: Iterable[Version], gpus: int) -> list[Entry]:
    """The lives of Muster's pods. gpus: of each node.

    A pod holds its node's devices from the version that binds it until its kubelet has said that it ended, or until it
    is deleted.
    """
    entries: list[Entry] = []
    lives: dict[str, _Life] = {}
    for version in sorted(versions, key=lambda each: each.revision):
        life = lives.get(version.key)
        uid = None if version.value is None else version.value["metadata"]["uid"]
        if life is not None and life.uid != uid:
            entries += life.gone(version.revision)
            del lives[version.key]
        if version.value is not None:
            life = lives.setdefault(version.key, _Life(version.value, gpus))
            entries += life.turn(version.revision, version.value)
    return entries


class _Life:
    """One pod, from one version to the next."""

    def __init__(self, pod: Json, gpus: int) -> None:
        self.uid = pod["metadata"]["uid"]
        self._gpus = gpus
        self._open = False  # it holds devices
        self._over = False
        self._base: dict[str, Any] = {}

    def turn(self, revision: int, pod: Json) -> list[Entry]:
        """What a version adds."""
        labels = pod["metadata"].get("labels") or {}
        node = pod["spec"].get("nodeName")
        if marks.RUN not in labels or not node or self._over:
            return []
        found = []
        if not self._open:
            self._open = True
            generation, attempt = marks.run_of(labels[marks.RUN])
            self._base = {
                "replica": pod["metadata"]["name"],
                "workload": labels[marks.WORKLOAD],
                "generation": generation,
                "attempt": attempt,
                "held": (Held(node, round(WHOLE * _gpus_of(pod) / self._gpus)),),
            }
            found.append(Entry(event="start", at_ns=revision, **self._base))
        if (pod.get("status") or {}).get("phase") in _TERMINAL:
            found += [Entry(event="exit", at_ns=revision, code=code, **self._base) for code in _codes(pod)]
            found += self.gone(revision)
        return found

    def gone(self, revision: int) -> list[Entry]:
        """Its end, once."""
        over, self._over = self._over, True
        return [] if over or not self._open else [Entry(event="gone", at_ns=revision, **self._base)]


def _gpus_of(pod: Json) -> int:
    containers = pod["spec"]["containers"]
    return sum(int((each.get("resources") or {}).get("limits", {}).get(GPU, 0)) for each in containers)


def _codes(pod: Json) -> Iterable[int]:
    for status in pod["status"].get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if ended is not None:
            yield int(ended["exitCode"])


def made_twice(calls: Iterable[Call]) -> list[str]:
    """Replicas for which the server accepted more than one new pod."""
    made = Counter(call.name for call in calls if call.code == _CREATED)
    return [f"a pod {name} was accepted {count} times" for name, count in sorted(made.items()) if count > 1]


def disagreements(calls: Sequence[Call], versions: Iterable[Version]) -> list[str]:
    """Where the audit log and etcd tell of different pods: then neither of them can be believed."""
    stored: dict[str, set[str]] = defaultdict(set)
    for version in versions:
        if version.value is not None and marks.RUN in (version.value["metadata"].get("labels") or {}):
            stored[version.value["metadata"]["name"]].add(version.value["metadata"]["uid"])
    accepted = Counter(call.name for call in calls if call.code == _CREATED)
    asked = {call.name for call in calls}
    found = [f"etcd has never had pod {name}, which was accepted" for name in sorted(accepted.keys() - stored.keys())]
    found += [f"etcd has had pod {name}, and no call asked for it" for name in sorted(stored.keys() - asked)]
    return found


def stuck(items: Iterable[Json]) -> list[str]:
    """Objects that are being deleted and that a finalizer of Muster still holds."""
    found = []
    for item in items:
        metadata = item["metadata"]
        ours = [each for each in metadata.get("finalizers") or () if each in {marks.GONE, marks.ROOT}]
        if ours and metadata.get("deletionTimestamp"):
            name = f"{metadata.get('namespace', '')}/{metadata['name']}"
            found.append(f"{item.get('kind', 'object')} {name} is held by {', '.join(ours)}")
    return sorted(found)
