"""The virtual cards of a cluster whose devices KAI-Scheduler gives, as they were last decided.

Used by `cache.py` and `node_cache.py` where the cluster file says so. Holds: a decision counts from the moment at which
it is made, also before the annotation that keeps it is seen; a pod counts until it is certain that no process is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from muster_cluster_agent.domain.kubernetes import kai_cards
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.kubernetes.kai_cards import CardNames
from muster_cluster_agent.domain.kubernetes.nodes import Counting, KubernetesNode, ToldApart
from muster_cluster_agent.domain.kubernetes.observing import evidence_of
from muster_cluster_agent.domain.kubernetes.pods import Pod


class KaiCache:
    """The cards of one cluster. changed: called with the name of each node on which pods of Muster hold others."""

    def __init__(self, cluster: str, settings: KaiSettings, counting: Counting, changed: Callable[[str], None]) -> None:
        self._names = CardNames(cluster)
        self._settings = settings
        self._counting = counting
        self._changed = changed
        self._own: dict[str, dict[str, Pod]] = defaultdict(dict)  # pods that may use devices, by node and name
        self._refuted: set[str] = set()  # names of pods to which KAI gave something else than they were assigned
        self._decided: dict[str, Mapping[str, str]] = {}  # by the pod's name: what its annotation does not say yet

    def note(self, pod: Pod) -> None:
        """Note what a pod of Muster is now."""
        if pod.source is not DeviceSource.KAI:
            return
        if evidence_of(pod):
            self.forget(pod)
            return
        if pod.cards:
            self._decided.pop(pod.name, None)
        here, before = self._own[_node_of(pod)], self._own[_node_of(pod)].get(pod.name)
        here[pod.name] = pod
        if before is None or _held(before) != _held(pod):
            self._changed(_node_of(pod))

    def forget(self, pod: Pod) -> None:
        """Note that a pod of Muster uses no device any more."""
        node = _node_of(pod)
        self._decided.pop(pod.name, None)
        self._refuted.discard(pod.name)
        if self._own.get(node, {}).pop(pod.name, None) is not None:
            self._changed(node)
        if not self._own.get(node, True):
            del self._own[node]

    def given(self, pod: Pod) -> tuple[str, ...] | None:
        """Return the cards that a pod has; None: it is not known yet, or is another number than assigned."""
        return kai_cards.given(pod, self._on(_node_of(pod)))

    def differs(self, pod: Pod, cards: Sequence[str]) -> bool:
        """Return whether KAI gave a pod what its replica cannot be charged for. cards: those of its node."""
        if pod.name in self._refuted or kai_cards.differs(pod):
            return True
        return self.is_unreported(pod) and self.decide(pod, cards) is None

    def refute(self, pod: Pod) -> None:
        """Note that KAI gave a pod something else than it was assigned."""
        self._refuted.add(pod.name)

    def is_unreported(self, pod: Pod) -> bool:
        """Return whether the cards of a pod are to be decided, and written down."""
        return pod.source is DeviceSource.KAI and kai_cards.is_unreported(pod, self._on(_node_of(pod)))

    def decide(self, pod: Pod, cards: Sequence[str]) -> Mapping[str, str] | None:
        """Return the card of each group of a pod from now on; None: its node has no card left for one.

        cards: those of its node.
        """
        if pod.name not in self._decided:
            node = _node_of(pod)
            found = kai_cards.cards_for(pod, self._on(node), cards)
            if found is None:
                return None
            self._decided[pod.name] = found
            self._changed(node)
        return self._decided[pod.name]

    def told_apart(self, node: KubernetesNode, others: Iterable[Pod]) -> ToldApart | None:
        """Return the cards of a node; None: its devices are counted. others: pods of others on it."""
        return kai_cards.told_apart(
            node, self._on(node.name), others, self._counting, self._names, self._settings.reservations
        )

    def _on(self, node: str) -> list[Pod]:
        """Return the pods of Muster that may use devices of a node, with what was decided of them."""
        return [
            replace(pod, cards=self._decided[pod.name]) if pod.name in self._decided else pod
            for pod in self._own.get(node, {}).values()
        ]


def _node_of(pod: Pod) -> str:
    """Return the node on which a pod of Muster is, or to which it is to be bound."""
    return pod.node or (pod.replica.node if pod.replica is not None else "")


def _held(pod: Pod) -> tuple[object, ...]:
    return pod.groups, pod.cards
