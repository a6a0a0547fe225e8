"""Whatever is desired, whatever dies and however often it is looked at: two runs never live side by side.

The machine plays one workload on a cluster of two nodes. After every step the agent reconciles until nothing is due.
"""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from muster_cluster_agent.domain.actions import Abandon, Action, Bury, Create, NothingHere, Refuse, Remove, Route, Stop
from muster_cluster_agent.domain.model import (
    Assignment,
    Ended,
    NodeHealth,
    NodeView,
    Observed,
    Pattern,
    Release,
    Revision,
    Run,
    State,
    Template,
)
from muster_cluster_agent.domain.plan import replica_plans
from muster_cluster_agent.domain.reconcile import Scene, reconcile
from muster_cluster_agent.domain.reports import ReportBook
from muster_cluster_agent.domain.status import judge

ID = "0190c0de-0000-7000-8000-000000000001"
PATTERNS = st.sampled_from([Pattern.SINGLE, Pattern.GANG, Pattern.MPI, Pattern.SERVICE])
HEALTHS = st.sampled_from([NodeHealth.UP, NodeHealth.UP, NodeHealth.SILENT, NodeHealth.LOST, NodeHealth.OUT_OF_SERVICE])


class OneWorkload(RuleBasedStateMachine):
    """Never two runs alive at once, never a name twice, no release by absence, no removal before the end is known."""

    records = Bundle("records")

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.attempt = 0
        self.desired: Assignment | Release | None = None
        self.planned: frozenset[str] = frozenset()
        self.answered = False
        self.replicas: dict[str, Observed] = {}
        self.removed: set[str] = set()
        self.ever: set[str] = set()
        self.nodes = {name: NodeView(name, NodeHealth.UP, "boot-0") for name in ("n-0", "n-1")}
        self.book = ReportBook()
        self.boots = 0

    @rule(pattern=PATTERNS, workers=st.integers(1, 3), newer=st.booleans(), k=st.integers(0, 1))
    def assign(self, pattern: Pattern, workers: int, newer: bool, k: int) -> None:
        self.attempt += newer
        runs = [Run("worker", index, 1, f"n-{index % 2}", k=k if index == 0 else 0) for index in range(workers)]
        if pattern is Pattern.MPI:
            runs.append(Run("launcher", 0, 1, "n-0"))
        revision = Revision(1, self.attempt, pattern, Template(command="x"), tuple(runs))
        self.desired = Assignment(ID, 1, "", 1, (revision,), grace=1.0)
        self.planned = frozenset(plan.name for plan in replica_plans(self.desired, revision))
        self.answered = False
        self.settle()

    @rule()
    def release(self) -> None:
        self.desired = Release(ID, 1, 1, self.attempt, 0.0, "released")
        self.answered = False
        self.attempt += 1
        self.settle()

    @rule(loses=st.booleans())
    def restart_agent(self, loses: bool) -> None:
        """Memory is gone; the topic is read again, or has been lost with the bus."""
        self.book.forget()
        self.planned = frozenset()
        self.answered = False
        if loses:
            self.desired = None
        self.settle()

    @precondition(lambda self: any(not r.gone for r in self.replicas.values()))
    @rule(data=st.data(), code=st.sampled_from([0, 1, 137]))
    def end(self, data: st.DataObject, code: int) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, r in self.replicas.items() if not r.gone)))
        self.put(replace(self.replicas[name], ended=Ended(code, self.now), gone=True, evidence="no-process"))
        self.settle()

    @precondition(lambda self: any(not r.gone for r in self.replicas.values()))
    @rule(data=st.data())
    def kill_supervisor(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, r in self.replicas.items() if not r.gone)))
        self.put(replace(self.replicas[name], supervised=False))
        self.settle()

    @rule(name=st.sampled_from(["n-0", "n-1"]), health=HEALTHS, reboots=st.booleans())
    def change_node(self, name: str, health: NodeHealth, reboots: bool) -> None:
        self.boots += reboots
        boot = f"boot-{self.boots}" if reboots else self.nodes[name].boot
        self.nodes[name] = NodeView(name, health, boot)
        self.settle()

    @rule(seconds=st.sampled_from([1.0, 130.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def put(self, replica: Observed) -> None:
        self.replicas[replica.name] = replica

    def settle(self) -> None:
        """Reconciles and obeys until nothing is due; that has to come."""
        actions: list[Action] = []
        for _ in range(50):
            self.report()
            actions = [a for a in reconcile(self.scene(), self.now) if not isinstance(a, Route)]
            if not actions or all(isinstance(action, Refuse) for action in actions):
                return
            for action in actions:
                self.obey(action)
        raise AssertionError(f"it does not settle: {actions}")

    def scene(self) -> Scene:
        return Scene(
            desired=self.desired,
            observed=tuple(self.replicas.values()),
            nodes=self.nodes,
            told=frozenset(name for name in self.replicas if self.book.has_told_gone(name)),
            removed=frozenset(self.removed),
            planned=self.planned,
            answered=self.answered,
        )

    def report(self) -> None:
        for replica in self.replicas.values():
            for status in self.book.due(judge(replica, self.nodes.get(replica.node))):
                self.book.acknowledge(status)
        self.book.check()

    def obey(self, action: object) -> None:
        match action:
            case Create(plan=plan):
                assert plan.name not in self.ever, f"{plan.name} is made a second time"
                assert all(r.gone or r.key == (1, plan.attempt) for r in self.replicas.values())
                self.ever.add(plan.name)
                self.put(self.made(action))
            case Abandon(plan=plan):
                self.ever.add(plan.name)
            case Stop(name=name, reason=reason):
                assert self.desired is not None, "absence released something"
                if self.nodes[self.replicas[name].node].health is NodeHealth.UP:
                    ended = Ended(143, self.now)
                    self.put(
                        replace(self.replicas[name], stop_reason=reason, ended=ended, gone=True, evidence="no-process")
                    )
                else:
                    self.put(replace(self.replicas[name], stop_reason=reason))
            case Bury(name=name, evidence=evidence, fault=fault):
                self.put(replace(self.replicas[name], gone=True, evidence=evidence, fault=fault))
            case Remove(name=name):
                assert self.replicas[name].gone
                assert self.book.has_told_gone(name)
                assert self.desired is not None
                del self.replicas[name]
                self.removed.add(name)
                self.book.drop(name)
            case NothingHere():
                assert isinstance(self.desired, Release)
                self.answered = True

    def made(self, action: Create) -> Observed:
        plan = action.plan
        return Observed(
            name=plan.name,
            workload_id=ID,
            generation=plan.generation,
            attempt=plan.attempt,
            role=plan.role,
            index=plan.index,
            k=plan.k,
            node=plan.node,
            boot=self.nodes[plan.node].boot,
            pattern=plan.pattern,
            started_at=self.now,
            ready=True,
        )

    @invariant()
    def one_run_at_a_time(self) -> None:
        alive = {replica.key for replica in self.replicas.values() if not replica.gone}
        assert len(alive) <= 1, f"alive at once: {alive}"

    @invariant()
    def one_replica_a_place(self) -> None:
        places = [(r.role, r.index) for r in self.replicas.values() if not r.gone]
        assert len(places) == len(set(places))

    @invariant()
    def a_release_on_answering_nodes_leaves_nothing(self) -> None:
        answering = all(node.health is NodeHealth.UP for node in self.nodes.values())
        if isinstance(self.desired, Release) and answering:
            assert not self.replicas
            assert self.answered or self.planned <= self.removed

    @invariant()
    def the_last_word_is_gone(self) -> None:
        for replica in self.replicas.values():
            if replica.gone:
                assert judge(replica, None).state is State.GONE


TestOneWorkload = OneWorkload.TestCase
TestOneWorkload.settings = settings(max_examples=150, stateful_step_count=25)
