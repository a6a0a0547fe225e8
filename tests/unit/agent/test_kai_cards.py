"""Virtual cards of a node of KAI-Scheduler: how groups are reported as cards, and what of them others hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.domain.findings import Severity
from muster_cluster_agent.domain.kubernetes import checking, kai_cards
from muster_cluster_agent.domain.kubernetes.amounts import Amounts
from muster_cluster_agent.domain.kubernetes.device_parts import Part
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.kai import RESERVATIONS
from muster_cluster_agent.domain.kubernetes.kai_cards import CardNames
from muster_cluster_agent.domain.kubernetes.nodes import Counting, ToldApart, node_of
from muster_cluster_agent.domain.kubernetes.pods import Pod

NAMES = CardNames("lab")
HALF = Part(500)
CARDS = tuple(f"lab/n-0/{number}" for number in range(4))


def own(name: str, *devices: int, part: Part = HALF, groups: str = "", cards: str = "", node: str = "n-0") -> Pod:
    """A pod of Muster. devices, cards: numbers; groups: a letter each, reported as the card of the same place."""
    made = Pod(name, "runai-p", f"uid-{name}", "1", node, "Running", Amounts(), source=DeviceSource.KAI, part=part)
    keys = groups if not part.whole else tuple(f"uid-{name}/{number}" for number in range(len(devices)))
    told = {key: CARDS[int(number)] for key, number in zip(keys, cards, strict=False)}
    return replace(made, devices=tuple(CARDS[number] for number in devices), groups=tuple(groups), cards=told)


def other(name: str, gpus: int = 0, groups: str = "", *, namespace: str = "team", parted: bool = False) -> Pod:
    """A pod of others on the node."""
    units = (("nvidia.com/gpu", gpus),) if gpus else ()
    amounts = Amounts(extended=units)
    return Pod(name, namespace, name, "1", "n-0", "Running", amounts, groups=tuple(groups), parted=parted)


def report(pods: Iterable[Pod], others: Iterable[Pod] = (), gpus: int = 4, slices: int = 0) -> ToldApart | None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81920"}
    raw: dict[str, Any] = {
        "metadata": {"name": "n-0", "uid": "u", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus), "nvidia.com/mig-1g.10gb": str(slices)}},
    }
    return kai_cards.told_apart(node_of(raw), [*pods], others, Counting(), NAMES, RESERVATIONS)


def numbers(names: Iterable[str]) -> list[int]:
    return [int(name.rpartition("/")[2]) for name in names]


def test_a_card_is_one_of_its_cluster_and_node() -> None:
    assert NAMES.name("n-0", 3) == "lab/n-0/3"
    assert NAMES.number("n-0", "lab/n-0/3") == 3
    for text in ("lab/n-1/3", "other/n-0/3", "lab/n-0/03", "lab/n-0/99999", "lab/n-0/", "lab/n-0/²", "GPU-a", "3"):
        assert NAMES.number("n-0", text) is None


def test_pods_of_one_group_are_told_as_one_card() -> None:
    first = own("a", 0, groups="A", cards="0")
    assert kai_cards.cards_for(own("b", 3, groups="A"), [first], CARDS) == {"A": CARDS[0]}


def test_a_group_is_reported_as_the_assigned_card_if_no_other_group_has_it() -> None:
    assert kai_cards.cards_for(own("b", 3, groups="B"), [own("a", 0, groups="A", cards="0")], CARDS) == {"B": CARDS[3]}
    found = kai_cards.cards_for(own("b", 0, groups="B"), [own("a", 0, groups="A", cards="0")], CARDS)
    assert found == {"B": CARDS[1]}


def test_cards_that_are_assigned_to_waiting_pods_are_taken_last() -> None:
    others = [own("a", 0, groups="A", cards="0"), own("w", 1, node=""), own("x", 3, part=Part())]
    assert kai_cards.cards_for(own("b", 0, groups="B"), others, CARDS) == {"B": CARDS[2]}
    others.append(own("c", 2, groups="C", cards="2"))
    assert kai_cards.cards_for(own("b", 0, groups="B"), others, CARDS) == {"B": CARDS[1]}
    others.append(own("d", 1, groups="D", cards="1"))
    assert kai_cards.cards_for(own("b", 0, groups="B"), others, CARDS) is None


def test_several_groups_are_told_as_several_cards() -> None:
    first = own("a", 0, groups="A", cards="0")
    assert kai_cards.cards_for(own("b", 1, 2, groups="AB"), [first], CARDS) == {"A": CARDS[0], "B": CARDS[1]}


def test_a_whole_card_is_reported_as_assigned_unless_a_group_has_it() -> None:
    whole = own("w", 0, 1, part=Part())
    assert kai_cards.given(whole, [whole]) == (CARDS[0], CARDS[1])
    group = own("a", 0, groups="A", cards="1")
    assert kai_cards.given(whole, [whole, group]) is None
    found = kai_cards.cards_for(whole, [whole, group], CARDS)
    assert found == {"uid-w/0": CARDS[0], "uid-w/1": CARDS[2]}
    told = replace(whole, cards=found)
    assert kai_cards.given(told, [told, group]) == (CARDS[0], CARDS[2])


def test_ready_waits_until_it_is_written_down_which_card_a_group_is() -> None:
    assert kai_cards.given(own("a", 0, node=""), []) is None
    assert kai_cards.given(own("a", 0, groups="A"), []) is None
    assert kai_cards.given(own("a", 0, groups="A", cards="2"), []) == (CARDS[2],)
    assert kai_cards.given(own("w", 0, part=Part(), node=""), []) is None


def test_another_number_of_groups_is_reported() -> None:
    assert kai_cards.differs(own("a", 0))
    assert kai_cards.differs(own("a", 0, 1, groups="A"))
    assert kai_cards.differs(own("a", 0, groups="AB"))
    assert not kai_cards.differs(own("a", 0, node=""))
    assert not kai_cards.differs(own("a", 0, 1, groups="AB"))
    assert not kai_cards.differs(own("a", 0, part=Part()))


def test_a_node_reports_as_many_cards_as_it_has() -> None:
    found = report([])
    assert found is not None
    assert [(device.uuid, device.model, device.memory_bytes, device.slot) for device in found.devices] == [
        (card, "H100-80GB", 81_920 << 20, number) for number, card in enumerate(CARDS)
    ]
    assert found.foreign == ()


def test_cards_that_pods_use_stay_if_the_node_has_fewer() -> None:
    found = report([own("a", 3, groups="A", cards="3"), own("w", 0, part=Part())], gpus=2)
    assert found is not None
    assert numbers(device.uuid for device in found.devices) == [0, 3]
    found = report([own("a", 3, groups="A", cards="3")], gpus=0)
    assert found is not None
    assert numbers(device.uuid for device in found.devices) == [3]


def test_the_check_tells_of_cards_and_of_those_whose_memory_is_not_known() -> None:
    nodes = [node_of({"metadata": {"name": name, "uid": "u"}, "status": {}}) for name in ("n-0", "n-1")]
    found = list(checking.kai_nodes(nodes, {"n-0": 4, "n-1": 0}, "muster"))
    assert [one.severity for one in found] == [Severity.WARNING, Severity.OK]
    assert found[0].text.startswith("n-0 has GPUs of unknown memory")
    assert found[1].text == "n-0 has 4 GPUs, which KAI gives whole and in parts to queue muster"
    assert list(checking.kai_nodes(nodes, {"n-0": 0, "n-1": 0}, "muster")) == []


def test_devices_of_nodes_with_slices_are_counted() -> None:
    assert report([], slices=7) is None


def test_whole_cards_and_reservations_of_others_are_theirs() -> None:
    others = [other("t", 1), other("r", 1, "T", namespace=RESERVATIONS), other("s", 0, "T", parted=True)]
    found = report([own("a", 3, groups="A", cards="3")], others)
    assert found is not None
    assert numbers(found.foreign) == [1, 2]


def test_the_reservation_of_a_card_of_muster_is_not_foreign() -> None:
    others = [other("r", 1, "A", namespace=RESERVATIONS)]
    found = report([own("a", 3, groups="A")], others)
    assert found is not None
    assert found.foreign == ()
    forged = report([own("a", 3, groups="A")], [other("r", 1, "A")])
    assert forged is not None
    assert numbers(forged.foreign) == [2], "a pod in another namespace reserves nothing"


def test_a_card_that_others_share_is_closed() -> None:
    mine = [own("a", 0, groups="A", cards="0")]
    found = report(mine, [other("s", 0, "A", parted=True)])
    assert found is not None
    assert numbers(found.foreign) == [0]
    forged = report(mine, [other("s", 0, "BCD", parted=True), other("l", 0, "A")])
    assert forged is not None
    assert forged.foreign == (), "labels alone take no card"


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ABCD")), max_size=8))
def test_two_groups_never_have_one_card(pods: list[tuple[int, str]]) -> None:
    told: list[Pod] = []
    for number, (device, group) in enumerate(pods):
        pod = own(f"{number}", device, groups=group)
        found = kai_cards.cards_for(pod, told, CARDS)
        assert found is not None, "there are as many cards as groups"
        told.append(replace(pod, cards=found))
    by_group = {group: {pod.cards[group] for pod in told if group in pod.groups} for group in "ABCD"}
    used = [card for cards in by_group.values() for card in cards]
    assert all(len(cards) <= 1 for cards in by_group.values())
    assert len(used) == len({*used})
