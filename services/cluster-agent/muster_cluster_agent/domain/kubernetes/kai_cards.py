"""Virtual cards of a node whose devices KAI-Scheduler gives (kubernetes.md 7.1).

KAI chooses the card of a pod itself. It tells which pods share a card, by a group, and of whole cards it tells nothing.
So a node reports cards that Muster numbers, and a group is reported as one of them: the charge of a replica follows it.
Called by the Kubernetes back end after each change of a node and of its pods. Pure.
Holds: pods of one group are reported as the same card and pods of two groups never; a group keeps its card for as long
as a pod of Muster has the group; a card that a pod of Muster may use never leaves the report of its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.kubernetes.nodes import (
    Counting,
    KubernetesNode,
    ToldApart,
    device_units,
    is_shared,
    model_of,
    slots_of,
)
from muster_cluster_agent.domain.kubernetes.pods import Pod


@dataclass(frozen=True, slots=True)
class CardNames:
    """How the cards of a cluster are named: nodes of two clusters may have one name, and cards of the fleet may not."""

    cluster: str

    def name(self, node: str, number: int) -> str:
        """Return the name of a card."""
        return f"{self.cluster}/{node}/{number}"

    def number(self, node: str, card: str) -> int | None:
        """Return the number of a card of the node; None: it is none. What names a card may be anybody's to edit."""
        text = card.removeprefix(f"{self.cluster}/{node}/")
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= len("9999") else None
        return number if number is not None and card == self.name(node, number) else None


def cards_held(pod: Pod) -> tuple[str, ...]:
    """Return the cards that a pod of Muster has: those of its groups, or else those assigned to it."""
    return tuple(pod.cards.values()) if _is_reported(pod) else pod.devices


def given(pod: Pod, own: Iterable[Pod]) -> tuple[str, ...] | None:
    """Return the cards that a pod has; None: it is not known yet, or it has another number than it was assigned.

    own: pods of Muster on its node that may use its devices.
    """
    if not pod.node or differs(pod) or is_unreported(pod, own):
        return None
    return tuple(sorted(cards_held(pod)))


def devices_of(pod: Pod, node: KubernetesNode) -> dict[str, Device]:
    """Return the cards that were assigned to a pod, by name, as the labels of its node describe them."""
    model, memory = model_of(node)
    return {card: Device(card, model, memory, number) for number, card in enumerate(pod.devices)}


def differs(pod: Pod) -> bool:
    """Return whether a pod shares fewer or more cards than its replica is charged for.

    KAI writes the groups before it binds a pod: another scheduler has bound a pod that is bound without them.
    """
    return not _is_whole(pod) and bool(pod.node) and len(pod.groups) != len(pod.devices)


def is_unreported(pod: Pod, own: Iterable[Pod]) -> bool:
    """Return whether a pod has groups for which no card is decided yet.

    Whole cards are reported as assigned, unless a group was reported as one of them after the scheduler had chosen it.
    """
    if not pod.node or differs(pod) or _is_reported(pod):
        return False
    return not _is_whole(pod) or not {*_known(_without(pod, own)).values()}.isdisjoint(pod.devices)


def cards_for(pod: Pod, own: Iterable[Pod], cards: Sequence[str]) -> Mapping[str, str] | None:
    """Return the card of each group of a pod; None: the node has no card left for one of them.

    own: pods of Muster on the node that may use its devices. cards: those of the node, in their order. A card that is
    assigned to a pod whose groups are not known yet is taken last.
    """
    others, groups = _without(pod, own), _groups(pod)
    known = _known(others)
    fixed, wished = set[str](), set[str]()
    for other in others:
        (fixed if _is_whole(other) or _is_reported(other) else wished).update(cards_held(other))
    found = {group: known[group] for group in groups if group in known}
    order = [*pod.devices, *(card for card in cards if card not in wished), *cards]
    free = [card for card in dict.fromkeys(order) if card not in fixed and card in cards]
    rest = [group for group in groups if group not in found]
    return {**found, **dict(zip(rest, free, strict=False))} if len(rest) <= len(free) else None


def told_apart(
    node: KubernetesNode,
    own: Sequence[Pod],
    others: Iterable[Pod],
    counting: Counting,
    names: CardNames,
    reservations: str,
) -> ToldApart | None:
    """Return the cards of a node; None: it has MIG slices or time-slicing, and its devices are counted.

    own: pods of Muster that may use its devices. others: pods of others. reservations: KAI's namespace. Where fewer
    cards are left than pods use, one has failed; which one is not known, so that all that are used stay.
    """
    units = slots_of(node, counting)
    if is_shared(node) or node.single or any(group.profile for group in units):
        return None
    held = {number for pod in own for card in cards_held(pod) if (number := names.number(node.name, card)) is not None}
    numbers, total = set(held), sum(group.count for group in units)
    free = (number for number in count() if number not in held)
    while len(numbers) < total:
        numbers.add(next(free))
    taken = _foreign_units(own, others := [*others], counting, reservations)
    # From the last one on: Muster fills a node from the first one on.
    foreign = sorted(numbers - held, reverse=True)[:taken]
    model, memory = model_of(node)
    known = _known(own)
    shared = {known[group] for pod in others if pod.parted for group in pod.groups if group in known}
    return ToldApart(
        devices=tuple(Device(names.name(node.name, number), model, memory, number) for number in sorted(numbers)),
        foreign=tuple(sorted({*(names.name(node.name, number) for number in foreign), *shared})),
    )


def _is_whole(pod: Pod) -> bool:
    return pod.part is None or pod.part.whole


def _groups(pod: Pod) -> tuple[str, ...]:
    """Return the groups of a pod. A whole card is a group that has one pod; KAI does not name it."""
    return tuple(f"{pod.uid}/{number}" for number in range(len(pod.devices))) if _is_whole(pod) else pod.groups


def _is_reported(pod: Pod) -> bool:
    return bool(pod.cards) and {*pod.cards} == {*_groups(pod)}


def _without(pod: Pod, own: Iterable[Pod]) -> list[Pod]:
    return [other for other in own if other.name != pod.name]


def _known(own: Iterable[Pod]) -> Mapping[str, str]:
    """Return the card of each group of Muster's pods."""
    return {group: card for pod in own if _is_reported(pod) for group, card in pod.cards.items()}


def _foreign_units(own: Iterable[Pod], others: Iterable[Pod], counting: Counting, reservations: str) -> int:
    """Return how many cards others hold.

    A card that pods share is held by its reservation pod. It is Muster's where a pod of Muster has the group. What
    other pods say of parts and groups takes no card: their labels are anybody's to write.
    """
    ours = {group for pod in own for group in pod.groups}
    return sum(
        amount
        for pod in others
        if pod.namespace != reservations or ours.isdisjoint(pod.groups)
        for _, amount in device_units(pod.amounts.extended, counting)
    )
