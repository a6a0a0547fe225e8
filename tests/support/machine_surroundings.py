"""What people and agents say of queues, pools and nodes: the rules of the state machine that are not of workloads.

Inherited by the machine in tests/properties/scheduler/test_machine.py.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import ModelQuota, Quota, UserLimit
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Mig, NodeState
from muster_scheduler.domain.fleet.objects import Objects, ReportedObjects
from tests.support.checked_fleet import Checked
from tests.support.machine_shapes import first, others, second

DYNAMIC = Profile(mig=Mig.DYNAMIC)


class Surroundings(RuleBasedStateMachine):
    """Everything around the workloads may change at any time."""

    fleet: Checked

    @rule(limit=st.sampled_from([None, 20, 300]), types=st.sampled_from([(), ("A100-80GB",), ("none",)]))
    def change_rules(self, limit: int | None, types: tuple[str, ...]) -> None:
        quota = {"default": Quota(6 * GPU), "other": Quota(6 * GPU)}
        rules = Rules(training_time=limit, training_idle=limit)
        self.fleet.send(events.ProjectChanged(Project("p", "d", quota, 0, rules, NodeTypes(training=types))))

    @rule(
        gpu=st.sampled_from(list(Strategy)),
        cpu=st.sampled_from(list(Strategy)),
        cluster=st.sampled_from(["c1", "c2"]),
        slices=st.booleans(),
    )
    def fill(self, gpu: Strategy, cpu: Strategy, cluster: str, *, slices: bool) -> None:
        pool = "default" if cluster == "c1" else "other"
        said = NodePool(int(cluster[1]), cluster, pool, 0, gpu, cpu, memory_as_slices=slices)
        self.fleet.send(events.NodePoolChanged(said))

    @rule(rack=st.sampled_from(["r1", "r2", ""]), name=st.sampled_from(["other", "other", "lab"]))
    def label_pool(self, rack: str, name: str) -> None:
        """The nodes of a rack are in another pool from now on, or those that were are back."""
        if rack:
            self.fleet.send(events.NodePoolChanged(NodePool(3, "c1", name, 0, label_key="rack", label_value=rack)))
        else:
            self.fleet.send(events.NodePoolRemoved(3))

    @rule(
        state=st.sampled_from(list(NodeState)),
        broken=st.booleans(),
        deadline=st.sampled_from([0, 10, 100]),
        effect=st.sampled_from(["", "", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
        windows=st.sampled_from([(), (), (-30,), (60,), (-30, 400)]),
        most=st.sampled_from([UNBOUNDED, UNBOUNDED, 0, 1, 3]),
    )
    def change_node(
        self, state: NodeState, broken: bool, deadline: int, effect: str, windows: tuple[int, ...], most: int
    ) -> None:
        changed = first(healthy=not broken)
        changed.state, changed.most_replicas = state, most
        changed.drain_deadline = self.fleet.now + deadline * SECOND if deadline else 0
        changed.taints = (("k", "v", effect),) if effect else ()
        changed.windows = tuple((self.fleet.now + at * SECOND, self.fleet.now + (at + 60) * SECOND) for at in windows)
        self.fleet.inventory("c1", [changed, second()], profile=DYNAMIC)

    @rule(lose=st.booleans(), data=st.booleans())
    def lose_node(self, lose: bool, data: bool) -> None:
        self.fleet.inventory("c2", [] if lose else others(data=data), profile=DYNAMIC)

    @rule(quota=st.integers(0, 10))
    def change_quota(self, quota: int) -> None:
        self.fleet.project("p", {"default": quota, "other": quota})

    @rule(
        deserved=st.integers(0, 8),
        limit=st.sampled_from([None, None, 3, 8]),
        weight=st.sampled_from([1000, 1000, 0]),
        pool=st.sampled_from(["default", "other"]),
        removed=st.booleans(),
    )
    def change_department(self, deserved: int, limit: int | None, weight: int, pool: str, removed: bool) -> None:
        self.fleet.department("d", {pool: deserved}, limit=limit, weight=weight)
        if removed:
            self.fleet.send(events.DepartmentRemoved("d"))

    @rule(
        department=st.sampled_from(["d", "e", ""]),
        weight=st.sampled_from([1000, 0]),
        limit=st.sampled_from([None, 3]),
        gpus=st.sampled_from([None, 2]),
        workloads=st.sampled_from([None, 1, 3]),
        pool=st.sampled_from(["", "default"]),
        model=st.sampled_from([None, None, 1, 2]),
    )
    def change_project(
        self,
        department: str,
        weight: int,
        limit: int | None,
        gpus: int | None,
        workloads: int | None,
        pool: str,
        model: int | None,
    ) -> None:
        users = () if gpus is None and workloads is None else (UserLimit(pool, gpus and gpus * GPU, workloads),)
        models = () if model is None else (ModelQuota("A100-80GB", model * GPU, 3 * GPU),)
        quotas = {"default": 2, "other": 1}
        self.fleet.project("q", quotas, department=department, weight=weight, users=users, limit=limit, models=models)

    @rule(cluster=st.sampled_from(["c1", "c2"]), named=st.booleans(), there=st.booleans())
    def name_objects(self, cluster: str, named: bool, there: bool) -> None:
        entries = (("runai-p", Objects(frozenset({"claims/data"}))),) if there else ()
        objects = ReportedObjects(named, entries, () if there else ("runai-p",))
        known = self.fleet.world.clusters[cluster]
        said = (False, known.inventory_sequence + 1, known.profile, (), (), objects)
        self.fleet.send(events.InventoryReported(cluster, self.fleet.order(cluster), *said))

    @rule(cluster=st.sampled_from(["c1", "c2"]))
    @precondition(lambda self: self.fleet.now % 7 == 0)
    def adopt(self, cluster: str) -> None:
        instance = self.fleet.world.clusters[cluster].instance
        self.fleet.send(events.ClusterAdopted(cluster, instance + "x"))
        self.fleet.send(events.ClusterAdopted(cluster, f"agent-{cluster}"))

    @rule(cluster=st.sampled_from(["c1", "c2"]))
    @precondition(lambda self: self.fleet.now % 11 == 0)
    def leave_and_come_back(self, cluster: str) -> None:
        self.fleet.send(events.ClusterLeft(cluster))
        self.fleet.send(self.fleet.heartbeat(cluster))  # of a cluster that has left
        self.fleet.send(events.ClusterRegistered(cluster))

    @rule(cluster=st.sampled_from(["c1", "c2"]), name=st.sampled_from(["n1", "m1"]))
    def force_gone(self, cluster: str, name: str) -> None:
        self.fleet.send(events.NodeForcedGone(cluster, name))
