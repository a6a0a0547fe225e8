"""Credentials in a plan: where they come from in a spec, and what stands there once they are opened."""

from __future__ import annotations

from dataclasses import replace

from muster.workload.v1.workload_pb2 import WorkloadSpec
from muster_cluster_agent.adapters.specs import template
from muster_cluster_agent.domain.plan import replica_plans
from muster_cluster_agent.domain.sealed import is_sealed, opened
from muster_kernel.sealed import SEALED
from tests.support.agent_loops import assignment

REFERENCE = f"{SEALED}0192d3c4-0000-7000-8000-000000000000:1"


def test_a_notebooks_token_is_a_variable_of_its_process() -> None:
    assert template(WorkloadSpec(notebook_token=REFERENCE), containers=False).env == (("JUPYTER_TOKEN", REFERENCE),)
    assert template(WorkloadSpec(notebook_token="SECRET:name,key"), containers=False).env == ()
    assert template(WorkloadSpec(), containers=False).env == ()


def test_references_become_values_and_nothing_else_does() -> None:
    wanted = assignment(1)
    (plan,) = replica_plans(wanted, wanted.newest)
    assert not is_sealed(plan)
    assert opened(plan, {}) == plan
    sealed = replace(plan, env=(("A", REFERENCE), ("B", f"not {REFERENCE}")))
    assert is_sealed(sealed)
    assert opened(sealed, {"other": "x"}) is None
    assert opened(sealed, {REFERENCE: "tok", "not": "x"}) == replace(
        plan, env=(("B", f"not {REFERENCE}"),), credentials=(("A", "tok"),)
    )


def test_what_is_said_last_of_a_name_counts() -> None:
    wanted = assignment(1)
    (plan,) = replica_plans(wanted, wanted.newest)
    made = opened(replace(plan, env=(("A", REFERENCE), ("A", "plain"))), {})
    assert made is not None
    assert (made.env, made.credentials) == ((("A", "plain"),), ())
