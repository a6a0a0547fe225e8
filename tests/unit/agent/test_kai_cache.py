"""The virtual cards of a cluster as they were last decided: what counts before it is written, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace

from muster_cluster_agent.adapters.kubernetes.kai_cache import KaiCache
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.kubernetes.nodes import Counting
from muster_cluster_agent.domain.kubernetes.pods import Container
from tests.unit.agent.test_kai_cards import CARDS, own


class Cache:
    """A cache, and the nodes of which it told a change since it was last asked."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.cards = KaiCache("lab", KaiSettings("muster"), Counting(), self.told.append)

    def changed(self) -> list[str]:
        found = [*self.told]
        self.told.clear()
        return found


def test_a_decision_counts_before_its_annotation_is_seen() -> None:
    cache, first, second = Cache(), own("a", 0, groups="A"), own("b", 0, groups="B")
    for pod in (first, second):
        cache.cards.note(pod)
    assert cache.cards.decide(first, CARDS) == {"A": CARDS[0]}
    assert cache.cards.decide(second, CARDS) == {"B": CARDS[1]}
    assert cache.cards.given(first) is None, "its annotation is not seen"
    seen = replace(first, cards={"A": CARDS[0]})
    cache.cards.note(seen)
    assert cache.cards.given(seen) == (CARDS[0],)
    assert not cache.cards.is_unreported(seen)


def test_a_node_is_reported_as_changed_only_where_its_pods_hold_something_else() -> None:
    cache, pod = Cache(), own("a", 0, groups="A")
    cache.cards.note(pod)
    assert cache.changed() == ["n-0"]
    cache.cards.note(replace(pod, phase="Pending"))
    assert cache.changed() == []
    cache.cards.decide(pod, CARDS)
    assert cache.changed() == ["n-0"]
    cache.cards.forget(pod)
    assert cache.changed() == ["n-0"]
    cache.cards.forget(pod)
    assert cache.changed() == []


def test_a_pod_that_has_ended_holds_no_group() -> None:
    cache, pod = Cache(), own("a", 0, groups="A")
    cache.cards.note(pod)
    cache.cards.decide(pod, CARDS)
    ended = replace(pod, phase="Failed", containers=(Container("main", ran=True, code=1),))
    cache.cards.note(ended)
    later = own("b", 0, groups="B")
    cache.cards.note(later)
    assert cache.cards.decide(later, CARDS) == {"B": CARDS[0]}


def test_a_pod_that_was_given_something_else_differs_until_it_is_gone() -> None:
    cache, pod = Cache(), own("a", 0, groups="A")
    cache.cards.note(pod)
    assert not cache.cards.differs(pod, CARDS)
    cache.cards.refute(pod)
    assert cache.cards.differs(pod, CARDS)
    cache.cards.forget(pod)
    assert not cache.cards.differs(pod, CARDS)
