"""Which nodes of one pool a workload may use, and how they lie to each other: what columns do not say, as arrays.

Kept by the capacity index beside its columns, which is made anew whenever a node is reported anew; read by
placement/gang.py.
Holds: `mask` says of every node what `eligibility.excluded` says. What is remembered is bounded and depends on the
nodes' reports alone, so that it never needs to be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from muster_scheduler.domain.asked.terms import HOST_LABEL, Label
from muster_scheduler.domain.fleet.eligibility import (
    Eligibility,
    excluded,
    models_of_node,
    reluctant,
    types_of_node,
)
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.topology import Topology, topology_of

K = TypeVar("K")
V = TypeVar("V")
Mask = NDArray[np.bool_]
_MOST: Final = 64  # masks and topologies that are remembered


class Usable:
    """The nodes of one pool, by their ordinals."""

    __slots__ = (
        "_by_cluster",
        "_by_models",
        "_by_types",
        "_keys",
        "_labels",
        "_nodes",
        "_of_type",
        "_ordinals",
        "_topologies",
        "special",
        "timeless",
    )

    def __init__(self, nodes: Sequence[Node]) -> None:
        """`nodes` by their ordinals."""
        self._nodes = nodes
        # Few nodes are out of service, closing or tainted: these are asked one by one, all others by their type alone.
        self.special = dict.fromkeys(n for n, node in enumerate(nodes) if not node.open or node.closes or node.taints)
        self.timeless = not any(nodes[n].closes for n in self.special)  # whether masks are the same at any time
        self._by_types: dict[frozenset[str] | None, Mask] = {}
        self._of_type: dict[str, list[int]] = {}
        self._by_models: dict[frozenset[str], Mask] = {}
        self._topologies: dict[tuple[str, ...], Topology] = {}
        self._ordinals: dict[tuple[str, str], int] = {}
        self._labels: frozenset[tuple[str, str]] | None = None
        self._keys: frozenset[str] = frozenset()
        self._by_cluster: dict[str, list[int]] = {}

    def mask(self, asked: Eligibility, now: int) -> Mask:
        """The nodes that this eligibility may use: bool[n], the caller's own."""
        mask = self._of_types(asked.types).copy()
        for n in self.special:
            mask[n] = excluded(asked, self._nodes[n], now) is None
        if asked.closed:
            mask &= self._without(asked.closed)
        barred = asked.avoided | asked.kept
        if barred and not self._ordinals:
            self._ordinals = {node.key: n for n, node in enumerate(self._nodes)}
        for key in barred:
            if key in self._ordinals:
                mask[self._ordinals[key]] = False
            elif not key[1]:
                mask[self._of_cluster(key[0])] = False
        return mask

    def _of_cluster(self, cluster: str) -> list[int]:
        if cluster not in self._by_cluster:
            self._by_cluster[cluster] = [n for n, node in enumerate(self._nodes) if node.key[0] == cluster]
        return self._by_cluster[cluster]

    def _of_types(self, types: frozenset[str] | None) -> Mask:
        """The nodes of these types, whatever their taints: bool[n], to be read only."""
        known = self._by_types.get(types)
        if known is None:
            known = np.full(len(self._nodes), types is None)
            for name in types or ():
                known[self._typed.get(name, [])] = True
            _remember(self._by_types, types, known)
        return known

    @property
    def _typed(self) -> dict[str, list[int]]:
        """The nodes of each type, so that a pool of many types is not walked through for each of them."""
        if not self._of_type:
            for n, node in enumerate(self._nodes):
                for name in types_of_node(node):
                    self._of_type.setdefault(name, []).append(n)
        return self._of_type

    def _without(self, models: frozenset[str]) -> Mask:
        known = self._by_models.get(models)
        if known is None:
            said = (models.isdisjoint(models_of_node(node)) for node in self._nodes)
            known = np.fromiter(said, np.bool_, len(self._nodes))
            _remember(self._by_models, models, known)
        return known

    def reluctant(self, asked: Eligibility) -> list[int]:
        """The nodes that ask to be taken last."""
        return [n for n in self.special if reluctant(asked, self._nodes[n])]

    def in_turn(self, asked: Eligibility, mask: Mask) -> tuple[Mask, ...]:
        """Of `mask`, what is tried one after the other: without the nodes that ask to be taken last, then with them."""
        last = self.reluctant(asked)
        if not last:
            return (mask,)
        gladly = mask.copy()
        gladly[last] = False
        return gladly, mask

    def has_label(self, label: Label) -> bool:
        """Whether a node that is there has it, open or not."""
        if self._labels is None:  # all at once: a fleet may have more data sets than are worth a walk each
            present = [node for node in self._nodes if node.present]
            hosts = ((HOST_LABEL, node.label(HOST_LABEL)) for node in present)
            self._labels = frozenset(hosts).union(*(node.labels for node in present))
            self._keys = frozenset(key for key, _ in self._labels)
        return label.key in self._keys if label.value is None else label in self._labels

    def topology(self, keys: tuple[str, ...]) -> Topology:
        """The domains that these labels form."""
        known = self._topologies.get(keys)
        if known is None:
            said = ([(key, value) for key in keys if (value := node.label(key))] for node in self._nodes)
            known = topology_of(keys, list(said))
            _remember(self._topologies, keys, known)
        return known

    def topology_for(self, keys: tuple[str, ...], apart: tuple[str, ...]) -> Topology:
        """The same, with the domains that the innermost of other labels forms, in which replicas stand alone.

        apart: empty where they need not. A node is a host of its own, whether or not it has a label that says so.
        """
        close = self.topology(keys)
        if not apart:
            return close
        if apart[-1] == HOST_LABEL:
            return replace(close, apart=np.arange(len(self._nodes), dtype=np.int32))
        return replace(close, apart=self.topology(apart).domain[-1])


def _remember(known: dict[K, V], key: K, value: V) -> None:
    if len(known) >= _MOST:
        known.clear()
    known[key] = value
