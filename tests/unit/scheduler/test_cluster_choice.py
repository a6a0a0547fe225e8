"""Which cluster takes a workload: of those that it may use, the ones that it prefers, those with its data, its home."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.prospects import Outlook, what_if
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.terms import HOST_LABEL, Label, Terms
from muster_scheduler.domain.asked.workloads import ReplicaState, Request, WorkloadKind
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Node
from tests.support.checked_fleet import Checked
from tests.support.fleets import Fleet, node, request, role, whole

DATA = Label("data", "x")


def at_home(fleet: Fleet, cluster: str) -> None:
    fleet.send(events.ProjectChanged(Project("p", "d", {"default": Quota(100 * GPU)}, 0, home=cluster)))


def choosy(*roles: Role, preferred: tuple[str, ...] = (), data: Label | None = None, **more: object) -> Request:
    """A request that would rather be in some clusters than in others."""
    return request(*roles, **more)._replace(terms=Terms(preferred_clusters=preferred, data=data))  # type: ignore[arg-type]


def labelled(made: Node, *labels: tuple[str, str]) -> Node:
    made.labels = labels
    return made


def three() -> Fleet:
    """Clusters c1, c2 and c3 of one GPU each; the last is where the project was made."""
    fleet = Fleet(*(node("a", 1, cluster=cluster) for cluster in ("c1", "c2", "c3")))
    at_home(fleet, "c3")
    return fleet


def test_the_projects_own_cluster_comes_first_and_others_follow() -> None:
    fleet = Fleet(node("a", 8), node("b", 1, cluster="c2"))
    at_home(fleet, "c2")
    for number in (1, 2):
        fleet.submit(number)
    assert [fleet.workload(number).cluster for number in (1, 2)] == ["c2", "c1"], "it is a preference"


def test_without_one_the_emptiest_comes_first() -> None:
    fleet = Fleet(node("a", 2), node("b", 8, cluster="c2"))
    fleet.submit(1)
    assert fleet.workload(1).cluster == "c2"


def test_only_clusters_that_it_may_use() -> None:
    fleet = Fleet(node("a", 1), node("b", 8, cluster="c2"))
    at_home(fleet, "c2")
    for number in (1, 2):
        fleet.submit(number, request(clusters=("c1",)))
    assert fleet.workload(1).cluster == "c1"
    assert not fleet.workload(2).replicas, "what it may not use does not help it"


def test_never_a_cluster_whose_policy_objects() -> None:
    fleet = Fleet(node("a", 2), node("b", 8, cluster="c2"))
    at_home(fleet, "c2")
    barred = request()._replace(excluded=("c2",))
    for number in (1, 2, 3):
        fleet.submit(number, barred)
    fleet.submit(4)
    assert [fleet.workload(number).cluster for number in (1, 2, 4)] == ["c1", "c1", "c2"]
    assert not fleet.workload(3).replicas, "it is of another class than what may use both"


def test_what_may_run_nowhere_says_so() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1, request()._replace(excluded=("c1",)))
    assert fleet.workload(1).told is WaitingReason.NO_CLUSTER


def test_what_waits_for_a_silent_cluster_goes_elsewhere_when_it_may() -> None:
    fleet = Fleet(node("a", 8), node("b", 1, cluster="c2"))
    at_home(fleet, "c1")
    fleet.submit(1, request(role(whole(8))))
    fleet.submit(2, request(role(whole(1)), clusters=("c1",)))
    fleet.submit(3, request(role(whole(2))))
    fleet.now += 60_000_000
    fleet.send(fleet.heartbeat("c2"))
    assert fleet.workload(1).phase is Phase.UNKNOWN
    fleet.inventory("c2", [node("b", 4, cluster="c2")])
    assert not fleet.workload(2).replicas, "it may use the silent one only"
    assert fleet.workload(3).cluster == "c2"


def test_what_ran_on_a_lost_cluster_is_placed_elsewhere() -> None:
    fleet = Fleet(node("a", 8), node("b", 8, cluster="c2"))
    at_home(fleet, "c1")
    fleet.submit(1)
    assert fleet.workload(1).cluster == "c1"
    fleet.now += 60_000_000
    fleet.send(fleet.heartbeat("c2"))
    fleet.send(events.NodeForcedGone("c1", "a"))
    assert fleet.workload(1).cluster == "c2"
    assert fleet.workload(1).attempt == 2


def test_preferred_clusters_come_first_in_their_order_and_are_a_wish() -> None:
    fleet = three()
    for number in range(1, 5):
        fleet.submit(number, choosy(preferred=("c2", "c1")))
    assert [fleet.workload(number).cluster for number in range(1, 5)] == ["c2", "c1", "c3", ""]


def test_a_preferred_cluster_that_nobody_knows_or_that_it_may_not_use_is_passed_over() -> None:
    fleet = three()
    fleet.submit(1, choosy(preferred=("nowhere", "c1"))._replace(clusters=("c2", "c3")))
    assert fleet.workload(1).cluster == "c3"


def test_clusters_with_the_data_come_after_the_preferred_ones_and_before_the_projects_own() -> None:
    fleet = three()
    fleet.inventory("c2", [labelled(node("a", 1, cluster="c2"), ("data", "x"))])
    for number in range(1, 4):
        fleet.submit(number, choosy(preferred=("c1",), data=DATA))
    assert [fleet.workload(number).cluster for number in range(1, 4)] == ["c1", "c2", "c3"]


@pytest.mark.parametrize(
    ("wanted", "cluster"),
    [
        (Label("data"), "c1"),
        (Label("data", "y"), "c1"),
        (Label("data", "z"), "c3"),
        (Label("empty", ""), "c1"),
        (Label("empty", "x"), "c3"),
        (Label(HOST_LABEL, "b"), "c2"),
    ],
)
def test_data_is_where_a_node_has_the_key_and_the_value_where_one_is_given(wanted: Label, cluster: str) -> None:
    fleet = three()
    fleet.inventory("c1", [labelled(node("a", 1), ("data", "y"), ("empty", ""))])
    fleet.inventory("c2", [node("b", 1, cluster="c2")])
    fleet.submit(1, choosy(data=wanted))
    assert fleet.workload(1).cluster == cluster


def test_data_in_another_node_pool_or_on_a_closed_node_counts() -> None:
    fleet = three()
    store = labelled(node("store", 0, pool="other"), ("data", "x"))
    store.devices[:] = []
    fleet.inventory("c1", [node("a", 1), store])
    fleet.submit(1, choosy(data=DATA))
    assert fleet.workload(1).cluster == "c1"


def test_a_label_that_comes_and_goes_is_followed() -> None:
    fleet = Fleet(node("a", 8), node("a", 4, cluster="c2"), node("b", 4, cluster="c2"))
    placed: list[str] = []
    for number, labels in enumerate(((), (("data", "x"),), ()), 1):
        fleet.inventory("c2", [node("a", 4, cluster="c2"), labelled(node("b", 4, cluster="c2"), *labels)])
        placed.append(fleet.submit(number, choosy(data=DATA)).cluster)
    assert placed == ["c1", "c2", "c1"]
    fleet.inventory("c2", [node("a", 4, cluster="c2"), labelled(node("b", 4, cluster="c2"), ("data", "x"))])
    fleet.submit(4, choosy(data=DATA))
    fleet.inventory("c2", [node("a", 4, cluster="c2")])  # the node with the data is gone
    fleet.submit(5, choosy(data=DATA))
    assert [fleet.workload(number).cluster for number in (4, 5)] == ["c2", "c1"]


def test_an_abort_takes_a_label_back() -> None:
    fleet = Fleet(node("a", 8), node("a", 4, cluster="c2"))
    before = fleet.state.digest()
    fleet.state.begin(fleet.now)
    order = fleet.order("c2")
    there = (labelled(node("a", 4, cluster="c2"), ("data", "x")),)
    fleet.state.apply(events.InventoryReported("c2", order, True, order.sequence, None, there, ()))
    fleet.state.apply(fleet.admitted(1, choosy(data=DATA)))
    fleet.state.propose()
    assert fleet.workload(1).cluster == "c2", "it was asked for while the label was there"
    fleet.state.abort()
    assert fleet.state.digest() == before
    fleet.submit(1, choosy(data=DATA))
    assert fleet.workload(1).cluster == "c1"


def test_a_place_now_in_a_cluster_further_down_comes_before_one_for_which_others_would_leave() -> None:
    fleet = Fleet(node("a", 1), node("b", 1, cluster="c2"))
    fleet.submit(1, request(clusters=("c1",), priority=25))
    fleet.submit(2, choosy(preferred=("c1",), priority=75))
    assert fleet.workload(2).cluster == "c2"
    assert fleet.workload(1).replicas, "nobody left for it"


def test_room_is_made_in_the_preferred_cluster_first() -> None:
    fleet = Fleet(node("a", 1), node("b", 1, cluster="c2"))
    for number, cluster in ((1, "c1"), (2, "c2")):
        fleet.submit(number, request(clusters=(cluster,), priority=25))
        fleet.run(number)
    fleet.submit(3, choosy(preferred=("c2",), priority=75))
    claim = fleet.workload(3).claim
    assert claim is not None
    assert (claim.cluster, claim.waits_for) == ("c2", (fleet.workload(2).id,))


def test_a_gang_goes_on_to_the_next_of_its_order_and_stays_there() -> None:
    fleet = Fleet(*(node("a", 8, cluster=cluster) for cluster in ("c1", "c2", "c3")))
    fleet.submit(1, choosy(role(whole(4), 2), preferred=("c3", "c2")))
    assert fleet.workload(1).cluster == "c3"
    fleet.now += 60_000_000
    fleet.send(fleet.heartbeat("c1"), fleet.heartbeat("c2"))
    fleet.send(events.NodeForcedGone("c3", "a"))
    assert (fleet.workload(1).cluster, fleet.workload(1).attempt) == ("c2", 2)
    fleet.run(1)
    fleet.inventory("c3", [node("a", 8, cluster="c3")])
    fleet.wait(60)
    assert (fleet.workload(1).cluster, fleet.workload(1).attempt) == ("c2", 2), "nothing moves back"


def test_what_if_names_the_cluster_to_which_it_then_goes() -> None:
    fleet = three()
    asked = fleet.admitted(1, choosy(preferred=("c2",)))
    (prospect,) = what_if(fleet.state, [asked], fleet.now).prospects
    assert (prospect.outlook, prospect.cluster) == (Outlook.STARTS, "c2")
    fleet.send(asked)
    assert fleet.workload(1).cluster == prospect.cluster


@pytest.mark.parametrize(
    ("terms", "cluster"),
    [
        (Terms(), "c1"),
        (Terms(preferred_clusters=("c3",)), "c3"),
        (Terms(data=DATA), "c2"),
        (Terms(data=Label("data", "y")), "c1"),
    ],
)
def test_a_state_that_is_read_back_and_a_standby_choose_the_same(terms: Terms, cluster: str) -> None:
    there = [node("a", 1, cluster=cluster) for cluster in ("c1", "c2", "c3")]
    fleet = Checked(there[0], labelled(there[1], ("data", "x")), there[2], profile=Profile(), quota=9)
    for number in (1, 2, 3):
        fleet.submit(number)
        fleet.run(number)
        fleet.report(number, ReplicaState.SUCCEEDED, exit_code=0)
    fleet.submit(4, request()._replace(terms=terms))
    fleet.rebuild()
    fleet.follow()
    fleet.send(*(fleet.status(number, None, gone=True, exit_code=0) for number in (1, 2, 3)))
    assert fleet.workload(4).cluster == cluster


def test_a_service_that_is_updated_stays_in_its_cluster_until_it_is_placed_anew() -> None:
    fleet = Fleet(node("a", 4), node("a", 2, cluster="c2"))
    serving = choosy(role(whole(1)), kind=WorkloadKind.INFERENCE, preferred=("c1",))
    fleet.submit(1, serving)
    fleet.run(1)
    fleet.submit(1, serving._replace(generation=2, terms=Terms(preferred_clusters=("c2",))))
    assert fleet.workload(1).cluster == "c1"
    fleet.report(1, ReplicaState.READY)
    fleet.send(events.SuspendRequested("e", fleet.workload(1).id))
    fleet.gone(1)
    fleet.send(events.ResumeRequested("e", fleet.workload(1).id))
    assert fleet.workload(1).cluster == "c2"
