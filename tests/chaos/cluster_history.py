"""What became of the pods of a cluster, of every version that its etcd ever had of them and of its audit log.

Called by `on_kubernetes.py`, and by its own tests on histories with planted faults. Pure: values in, entries and
findings out. The revision of etcd is the clock: one order for all that has happened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes import marks
from tests.chaos.checker import WHOLE, Entry, Held, Life, lives_of

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

    name: str
    code: int


def entries_of(versions: Iterable[Version], gpus: int) -> list[Entry]:
    """The lives of Muster's pods. gpus: of each node.

    A pod holds its node's devices from the version that binds it until its kubelet has said that it ended, or until it
    is deleted.
    """
    entries: list[Entry] = []
    lives: dict[str, _Pod] = {}
    for version in sorted(versions, key=lambda found: found.revision):
        life = lives.get(version.key)
        if life is not None and life.uid != _uid(version.value):
            entries += life.gone(version.revision)
            del lives[version.key]
        if version.value is not None:
            life = lives.setdefault(version.key, _Pod(version.value, gpus))
            entries += life.turn(version.revision, version.value)
    return entries


class _Pod:
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


def _uid(pod: Json | None) -> str | None:
    return None if pod is None else str(pod["metadata"]["uid"])


def _gpus_of(pod: Json) -> int:
    containers = pod["spec"]["containers"]
    return sum(int((each.get("resources") or {}).get("limits", {}).get(GPU, 0)) for each in containers)


def _codes(pod: Json) -> Iterable[int]:
    for state in _states(pod):
        if "terminated" in state:
            yield int(state["terminated"]["exitCode"])


def _states(pod: Json) -> Iterable[Json]:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        yield status.get("state") or {}


def disturbed(versions: Iterable[Version], stopped: AbstractSet[str]) -> list[str]:
    """Running work that was touched: no kill of this run hits a pod.

    stopped: workloads that the client has ended. A pod that is deleted before it has ended was deleted by Muster; one
    that goes while its container runs has lost its finalizer before there was evidence.
    """
    found: dict[str, None] = {}
    last: dict[str, Json] = {}
    for version in sorted(versions, key=lambda item: item.revision):
        before = last.get(version.key)
        if before is not None and _uid(version.value) != _uid(before):
            if any("running" in state for state in _states(before)):
                found[f"pod {version.key} went while its container ran"] = None
            del last[version.key]
        pod = version.value
        labels = {} if pod is None else pod["metadata"].get("labels") or {}
        if pod is None or marks.RUN not in labels:
            continue
        last[version.key] = pod
        unasked = labels[marks.WORKLOAD] not in stopped and pod["metadata"].get("deletionTimestamp")
        if unasked and (pod.get("status") or {}).get("phase") not in _TERMINAL:
            found[f"pod {version.key} was deleted before it had ended, and no user had asked for it"] = None
    return [*found]


def started_again(entries: Iterable[Entry], stopped: AbstractSet[str]) -> list[str]:
    """Workloads that had a second attempt although the client has not ended the first one."""
    attempts: dict[tuple[str, int], set[int]] = defaultdict(set)
    for entry in entries:
        attempts[entry.workload, entry.generation].add(entry.attempt)
    return [
        f"{workload} was started {len(found)} times"
        for (workload, _), found in sorted(attempts.items())
        if len(found) > 1 and workload not in stopped
    ]


def incarnations_overlap(entries: Iterable[Entry]) -> list[str]:
    """Two incarnations of one replica at the same time: their names differ in the last number alone."""
    places: dict[str, list[Life]] = defaultdict(list)
    for life in lives_of(entries):
        places[life.replica.rpartition("-r")[0]].append(life)
    return [
        f"{one.replica} and {other.replica} held devices at the same time"
        for lives in places.values()
        for one, other in combinations(lives, 2)
        if one.replica != other.replica and (one.gone_ns is None or other.start_ns < one.gone_ns)
    ]


_EXPECTED: Final = {
    "training": "Completed",
    "gang": "Completed",
    "suspended": "Completed",
    "failing": "Failed",
    "inference": "Deleted",
}


def unexpected(names: Mapping[str, str], phases: Mapping[str, str]) -> list[str]:
    """Ends that are not those of their documents. names: by workload, `<shape>-<number>`. phases: the last ones."""
    found = []
    for workload, name in sorted(names.items(), key=lambda item: item[1]):
        expected = _EXPECTED[name.partition("-")[0]]
        if phases.get(workload) != expected:
            found.append(f"{name} is {phases.get(workload, 'unknown')}; {expected} was to be expected")
    return found


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
