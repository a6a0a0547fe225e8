"""The scheduler under anything: whatever comes in whatever order, its laws hold after every step."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import ClassVar

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import FailureClass
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.domain import decisions as d
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quotas import ModelQuota, Quota, UserLimit
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.asked.terms import Terms, Wish
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Trials, WorkloadKind
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig, Mode, Node, NodeState
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import State
from tests.support.fleets import (
    GIB,
    Fleet,
    device_memory,
    devices,
    host,
    mig_slice,
    node,
    portion,
    request,
    role,
    whole,
    workload_id,
)
from tests.support.scheduler_tables import Tables, TablesUnit

SHAPES = st.sampled_from(
    [
        whole(1),
        whole(2),
        whole(4),
        portion(300),
        portion(500),
        portion(200, 2),
        device_memory(30 * GIB),
        mig_slice("1g.10gb"),
        mig_slice("3g.40gb"),
        host(),
    ]
)
ROLES: st.SearchStrategy[tuple[Role, ...]] = st.lists(st.tuples(SHAPES, st.integers(1, 3)), min_size=1, max_size=2).map(
    lambda parts: tuple(role(shape, size, f"r{n}") for n, (shape, size) in enumerate(parts))
)
PLACES = st.sampled_from(
    [
        (pools, wish)
        for pools in (("default",), ("other", "default"), ("other",))
        for wish in (Wish(), Wish(required="rack"), Wish("block", "rack"), Wish(group="rack", group_size=2))
    ]
)
NUMBERS = st.integers(1, 12)
STEPS_EACH = 50
LIMITS = Limits(usage_weight=1000, usage_half_life=400 * SECOND)


class Checked(Fleet):
    """A fleet that does every transaction twice: aborted, then committed, with the same decisions."""

    def __init__(self, *nodes: Node, profile: Profile, quota: int) -> None:
        self.tables = Tables()
        super().__init__(*nodes, profile=profile, quota=quota)

    def rebuild(self) -> None:
        """Goes on with what the tables say."""
        made = asyncio.run(load(self.tables, LIMITS, self.now))  # type: ignore[arg-type]
        made.check()
        assert made.digest() == self.state.digest(), "the tables say something else than memory"
        for cluster in made.world.clusters.values():
            cluster.fresh = self.state.world.clusters[cluster.id].fresh
        self.state = made

    def send(self, *incoming: events.Event, budget: Budget | None = None) -> list[d.Decision]:
        before, promised = self.state.digest(), frozenset(self.state.world.claims)
        first = self._try(incoming)
        self.state.abort()
        assert self.state.digest() == before, "an abort left a trace"
        second = self._try(incoming)
        asyncio.run(PostgresStore().write(TablesUnit(self.tables), self.state.plan(), self.state.world))  # type: ignore[arg-type]
        assert firm(first) == firm(second), "the same events were decided differently"
        keeps_quotas(self.state.world, second, promised)
        keeps_wishes(self.state.world)
        self.decisions += second
        self.state.commit()
        self.state.check()
        return second

    def _try(self, incoming: Sequence[events.Event]) -> list[d.Decision]:
        self.state.begin(self.now)
        for event in incoming:
            self.state.apply(event)
        self.state.propose()
        return list(self.state.plan().decisions)


def firm(decisions: list[d.Decision]) -> list[d.Decision]:
    """All but what people are told while nothing changes: a rebuilt queue looks at once at what the other skips."""
    return [one for one in decisions if not isinstance(one, d.Waiting | d.Queued)]


def at(rack: str, made: Node) -> Node:
    """The node in a rack of the one block."""
    made.labels = (("block", "b"), ("rack", rack))
    return made


def keeps_wishes(world: World) -> None:
    """Whoever has to run inside one domain does."""
    for workload in world.workloads.values():
        key = workload.request.terms.topology.required if workload.request else ""
        nodes = {replica.node for replica in workload.replicas.values() if not replica.gone} if key else set()
        homes = {world.inventory.nodes[node].label(key) for node in nodes if node in world.inventory.nodes}
        assert len(homes) <= 1, f"{workload.id} runs in {sorted(homes)} of {key}"


def keeps_quotas(world: World, decided: list[d.Decision], promised: frozenset[str]) -> None:
    """What was placed now leaves its project and its department within their quotas; a promise of before may not."""
    for placed in decided:
        if not isinstance(placed, d.Placed) or placed.workload in promised:
            continue
        workload = world.workloads[placed.workload]
        books, pool, request = world.queues, workload.pool, workload.request
        department = books.department_of(workload.project)
        quotas = [(books.quota(workload.project, pool), books.account(workload.project, pool))]
        if department is not None and pool in department.quotas:
            quotas.append((department.quotas[pool], books.department_account(department.name, pool)))
        for quota, account in quotas:
            charged = sum(replica.grant.charge for replica in workload.everyone())
            line = quota.lines[0]
            assert not charged or line.most is None or account.allocated <= line.most
            assert not charged or request is None or request.preemptible or account.non_preemptible <= quota.deserved


class SchedulerMachine(RuleBasedStateMachine):
    """No device is over-given, gangs are whole, quotas keep, nobody is evicted in vain, aborts leave no trace."""

    fleet: Checked
    steps: ClassVar[int] = 0

    @initialize()
    def begin(self) -> None:
        self.fleet = Checked(
            at("r1", node("n1", 4)),
            at("r2", node("n2", cards=[*devices("c1-n2", 2), *devices("c1-n2m", 2, mig=True)])),
            node("m1", 4, cluster="c2", pool="other"),
            node("m2", 0, cluster="c2", slots=3),
            profile=Profile(mig=Mig.DYNAMIC),
            quota=6,
        )
        self.fleet.world.limits = LIMITS
        self.fleet.project("q", {"default": 2, "other": 1})
        self.known: list[int] = []

    @rule(
        number=NUMBERS,
        roles=ROLES,
        priority=st.sampled_from([25, 50, 75]),
        preemptible=st.booleans(),
        project=st.sampled_from("pq"),
        place=PLACES,
        terminate=st.booleans(),
        active=st.sampled_from([True, True, True, False]),
    )
    def submit(
        self,
        number: int,
        roles: tuple[Role, ...],
        priority: int,
        preemptible: bool,
        project: str,
        place: tuple[tuple[str, ...], Wish],
        terminate: bool,
        active: bool,
    ) -> None:
        pools, wish = place
        asked = request(
            *roles,
            priority=priority,
            preemptible=preemptible,
            pools=pools,
            terminate_after_preemption=terminate,
            backoff_limit=2,
        )._replace(terms=Terms(topology=wish))
        self.fleet.submit(number, asked, project=project, active=active)
        self.note(number)

    @rule(number=NUMBERS, size=st.integers(1, 3), most=st.integers(1, 4), generation=st.integers(1, 3))
    def serve(self, number: int, size: int, most: int, generation: int) -> None:
        asked = request(
            role(whole(1), size), kind=WorkloadKind.INFERENCE, max_scale=most, generation=generation, priority=75
        )
        self.fleet.submit(number, asked)
        self.note(number)

    @rule(number=NUMBERS, completions=st.integers(2, 6), at_once=st.integers(1, 3), limit=st.integers(0, 3))
    def run_trials(self, number: int, completions: int, at_once: int, limit: int) -> None:
        asked = request(role(whole(1)), backoff_limit=limit)._replace(trials=Trials(completions, at_once))
        self.fleet.submit(number, asked)
        self.note(number)

    @rule(number=NUMBERS, replicas=st.integers(0, 5))
    def scale(self, number: int, replicas: int) -> None:
        self.fleet.send(events.ScaleAdvised(self.id(number), replicas))

    @rule(number=NUMBERS, wish=st.sampled_from("srd"))
    def intend(self, number: int, wish: str) -> None:
        intents: dict[str, Callable[[str, str], events.Event]] = {
            "s": events.SuspendRequested,
            "r": events.ResumeRequested,
            "d": events.DeletionRequested,
        }
        self.fleet.send(intents[wish]("e", self.id(number)))
        self.note(number)

    @rule(number=NUMBERS, pick=st.integers(0, 5), state=st.sampled_from(list(ReplicaState)[1:]), late=st.booleans())
    def report(self, number: int, pick: int, state: ReplicaState, late: bool) -> None:
        self._report(number, pick, state, gone=False, late=late)

    @rule(number=NUMBERS, pick=st.integers(0, 5), everything=st.booleans())
    def vanish(self, number: int, pick: int, everything: bool) -> None:
        if number not in self.known:
            return
        for each in range(len(self.fleet.workload(number).everyone()) if everything else 1):
            self._report(number, 0 if everything else pick, None, gone=True, late=False)
            del each

    def _report(self, number: int, pick: int, state: ReplicaState | None, *, gone: bool, late: bool) -> None:
        if number not in self.known:
            return
        left = [r for r in self.fleet.workload(number).everyone() if not r.gone]
        if not left:
            return
        holder = left[pick % len(left)].holder
        status = events.Status(
            holder.role,
            holder.rank,
            holder.k,
            "",
            state,
            gone,
            {ReplicaState.SUCCEEDED: 0, ReplicaState.FAILED: 1}.get(state) if state else None,
            FailureClass.EXIT if state is ReplicaState.FAILED else FailureClass.NONE,
        )
        cluster = self.fleet.workload(number).cluster
        order = self.fleet.order(cluster)
        if late:
            order = order._replace(sequence=1)
        report = events.ReplicaReported(cluster, order, holder.workload, holder.generation, holder.attempt, status)
        self.fleet.send(report, report)

    @rule(number=NUMBERS, forever=st.booleans())
    def refuse(self, number: int, forever: bool) -> None:
        if number not in self.known:
            return
        w = self.fleet.workload(number)
        if w.replicas:
            node_name = min(w.replicas.values(), key=lambda r: r.holder).node[1]
            order = self.fleet.order(w.cluster)
            retry = 0 if forever else 30
            self.fleet.send(
                events.AssignmentRefused(w.cluster, order, w.id, w.generation, w.attempt, "C", "m", node_name, retry)
            )

    @rule(seconds=st.sampled_from([1, 5, 31, 400]))
    def pass_time(self, seconds: int) -> None:
        self.fleet.wait(seconds)

    @rule(seconds=st.sampled_from([20, 60]))
    def fall_silent(self, seconds: int) -> None:
        self.fleet.now += seconds * 1_000_000
        self.fleet.send()

    @rule(cluster=st.sampled_from(["c1", "c2"]))
    def snapshot(self, cluster: str) -> None:
        held = []
        for number in sorted(set(self.known)):
            w = self.fleet.workload(number)
            if w.cluster == cluster and w.everyone():
                held.append(events.Held(w.id, w.generation, w.attempt, 1, ()))
        self.fleet.send(events.AssignmentsHeld(cluster, self.fleet.order(cluster), tuple(held), 1))

    @rule(limit=st.sampled_from([None, 20, 300]), types=st.sampled_from([(), ("A100-80GB",), ("none",)]))
    def change_rules(self, limit: int | None, types: tuple[str, ...]) -> None:
        quota = (("default", Quota(6 * GPU)), ("other", Quota(6 * GPU)))
        rules = Rules(training_time=limit, training_idle=limit)
        self.fleet.send(events.ProjectChanged("p", "d", quota, 0, rules, NodeTypes(training=types)))

    @rule(
        gpu=st.sampled_from(list(Strategy)), cpu=st.sampled_from(list(Strategy)), cluster=st.sampled_from(["c1", "c2"])
    )
    def fill(self, gpu: Strategy, cpu: Strategy, cluster: str) -> None:
        pool = "default" if cluster == "c1" else "other"
        self.fleet.send(events.NodePoolChanged(NodePool(int(cluster[1]), cluster, pool, 0, gpu, cpu)))

    @rule(number=NUMBERS, before=st.sampled_from([0, 15, 500]))
    def idle(self, number: int, before: int) -> None:
        since = max(0, self.fleet.now - before * SECOND) if before else 0
        self.fleet.send(events.IdleReported(self.id(number), since))

    @rule(
        state=st.sampled_from(list(NodeState)),
        broken=st.booleans(),
        deadline=st.sampled_from([0, 10, 100]),
        effect=st.sampled_from(["", "", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
        windows=st.sampled_from([(), (), (-30,), (60,), (-30, 400)]),
    )
    def change_node(self, state: NodeState, broken: bool, deadline: int, effect: str, windows: tuple[int, ...]) -> None:
        cards = devices("c1-n1", 4)
        cards[0].healthy = not broken
        changed = at("r1", node("n1", cards=cards, state=state))
        changed.drain_deadline = self.fleet.now + deadline * SECOND if deadline else 0
        changed.taints = (("k", "v", effect),) if effect else ()
        changed.windows = tuple((self.fleet.now + at * SECOND, self.fleet.now + (at + 60) * SECOND) for at in windows)
        other = at("r2", node("n2", cards=[*devices("c1-n2", 2), *devices("c1-n2m", 2, mig=True)]))
        profile = Profile(mig=Mig.DYNAMIC)
        self.fleet.inventory("c1", [changed, other], profile=profile)

    @rule()
    def rebuild(self) -> None:
        self.fleet.rebuild()

    @rule()
    def forget(self) -> None:
        before = set(self.fleet.world.workloads)
        self.fleet.state.begin(self.fleet.now + 15 * 24 * 3600 * 1_000_000)
        self.fleet.world.forget_deleted()
        plan = self.fleet.state.plan()
        asyncio.run(PostgresStore().write(TablesUnit(self.fleet.tables), plan, self.fleet.world))  # type: ignore[arg-type]
        self.fleet.state.commit()
        self.fleet.now = max(self.fleet.now, self.fleet.world.now)
        gone = before - set(self.fleet.world.workloads)
        self.known = [number for number in self.known if self.id(number) not in gone]

    @rule(lose=st.booleans())
    def lose_node(self, lose: bool) -> None:
        nodes = [] if lose else [node("m1", 4, cluster="c2", pool="other"), node("m2", 0, cluster="c2", slots=3)]
        self.fleet.inventory("c2", nodes, profile=Profile(mig=Mig.DYNAMIC))

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

    @rule(cluster=st.sampled_from(["c1", "c2"]))
    @precondition(lambda self: self.fleet.now % 7 == 0)
    def adopt(self, cluster: str) -> None:
        instance = self.fleet.world.clusters[cluster].instance
        self.fleet.send(events.ClusterAdopted(cluster, instance + "x"))
        self.fleet.send(events.ClusterAdopted(cluster, f"agent-{cluster}"))

    @rule(cluster=st.sampled_from(["c1", "c2"]), name=st.sampled_from(["n1", "m1"]))
    def force_gone(self, cluster: str, name: str) -> None:
        self.fleet.send(events.NodeForcedGone(cluster, name))

    def id(self, number: int) -> str:
        return workload_id(number)

    def note(self, number: int) -> None:
        self.known.append(number)
        w = self.fleet.workload(number)
        note(f"{number}: {w.phase} on {[r.holder[2:] for r in w.everyone()]}")

    @invariant()
    def real_holders_fit(self) -> None:
        if not hasattr(self, "fleet"):
            return
        SchedulerMachine.steps += 1
        promised = set(self.fleet.world.claims)
        for each in self.fleet.world.inventory.nodes.values():
            running = sum(grant.slots for holder, grant in each.entries.items() if holder.workload not in promised)
            assert running <= each.slots
            for device in each.devices:
                if device.mode is Mode.IDLE:
                    assert not device.entries

    @invariant()
    def index_finds_what_fits(self) -> None:
        """A class that is blocked for want of room would fail again if it were tried."""
        if not hasattr(self, "fleet"):
            return
        world = self.fleet.world
        before = self.fleet.state.digest()
        probe: State = self.fleet.state
        probe.begin(self.fleet.now)
        world.waiting.wake_all()
        probe.propose()
        made = [one for one in probe.plan().decisions if isinstance(one, d.Placed | d.Preempted)]
        probe.abort()
        assert not made, f"a blocked class could have been placed: {made}"
        assert self.fleet.state.digest() == before

    @invariant()
    def active_have_their_record(self) -> None:
        if not hasattr(self, "fleet"):
            return
        for number in set(self.known):
            w = self.fleet.workload(number)
            records = self.fleet.records(number)
            if w.phase in ACTIVE:
                assert isinstance(records[-1], d.Assign), f"{w.phase} without a record"
            elif records and w.phase is not Phase.UNKNOWN:
                assert isinstance(records[-1], d.Release), f"{w.phase} with a record"


def test_its_laws_hold_after_every_step() -> None:
    """MUSTER_MACHINE_STEPS: checked steps of a run; 8,000 where nothing is said."""
    wanted = int(os.environ.get("MUSTER_MACHINE_STEPS", "8000"))
    SchedulerMachine.steps = 0
    while SchedulerMachine.steps < wanted:  # some examples end early, so their number says little
        before = SchedulerMachine.steps
        examples = max(1, (wanted - before) // STEPS_EACH)
        many = settings(
            max_examples=examples,
            stateful_step_count=STEPS_EACH,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(SchedulerMachine, settings=many)
        assert SchedulerMachine.steps > before, "no step was run"
