"""What replicas are doing while they start reaches people, and is over once they are ready."""

from __future__ import annotations

from muster_scheduler.adapters.encoding import replica_of
from muster_scheduler.domain.asked.workloads import ReplicaState
from muster_scheduler.domain.decisions import PhaseChange
from tests.support.fleets import Fleet, node


def _shown(fleet: Fleet) -> tuple[str, str, int]:
    (replica,) = fleet.workload(1).replicas.values()
    made = replica_of(replica)
    return made.state, made.substate, made.substate_since.ToMicroseconds()


def test_each_step_is_published_and_the_last_one_is_forgotten() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1)
    at = fleet.now
    for step in ("BINDING", "PULLING"):
        made = fleet.report(1, ReplicaState.CREATED, substate=step, substate_since=at)
        assert [type(one) for one in made] == [PhaseChange]
        assert _shown(fleet) == ("CREATED", step, at)
    assert fleet.report(1, ReplicaState.CREATED, substate="PULLING", substate_since=at) == []
    fleet.report(1, ReplicaState.READY)
    assert _shown(fleet) == ("READY", "", 0)
