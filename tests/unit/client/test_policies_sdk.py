"""`muster.policies` of the SDK: one key for all attempts, every option on its way, and which policy is meant."""

from __future__ import annotations

from dataclasses import fields

import pytest
from google.rpc import code_pb2

from muster.api.v1 import policies_pb2 as api
from muster_client import Conflict, InvalidInput, Muster, MusterSync, NotFound
from muster_client.drafts import draft_of
from muster_client.policies import ApplyOptions, policy_key, policy_scope
from tests.support.plane_world import Failure, World
from tests.unit.client.test_policy_verbs import RESEARCH, TENANT

ID = "0192d3c4-5a3e-7000-8000-1f2e3d4c5b6a"
LOST = Failure(code_pb2.UNAVAILABLE, "the answer is lost", after=True)


async def test_a_write_whose_answer_was_lost_is_done_once(server: str, world: World) -> None:
    for method in ("ApplyPolicies", "RollbackPolicy", "DeletePolicy"):
        world.fail(method, LOST)
    async with Muster(server) as muster:
        made = await muster.policies.apply([TENANT])
        again = await muster.policies.rollback(policy_key(made.policies[0].policy.id), 1)
        await muster.policies.delete(policy_key("training"))
    assert (made.policies[0].outcome, again.policy.policy.version) == (api.POLICY_OUTCOME_CREATED, 2)
    for method in ("ApplyPolicies", "RollbackPolicy", "DeletePolicy"):
        first, second = (each.idempotency_key for each in world.asked(method))
        assert first == second != ""
    assert [each.version for each in world.shelf.versions[made.policies[0].policy.id]] == [1, 2, 3]


async def test_every_option_arrives(server: str, world: World) -> None:
    options = ApplyOptions("git", True, True, True, True, True, "why", 7)
    assert all(getattr(options, each.name) for each in fields(options)), "an option that this test forgets"
    text = api.PolicyText(text=TENANT, file="a.yaml")
    async with Muster(server) as muster:
        await muster.policies.apply([text, RESEARCH], options, key="mine")
        await muster.policies.apply([text])
    asked, plain = world.asked("ApplyPolicies")
    for each in fields(options):
        assert getattr(asked, each.name) == getattr(options, each.name)
        assert not getattr(plain, each.name)
    assert (asked.texts[0], asked.texts[1].text, asked.idempotency_key) == (text, RESEARCH, "mine")
    assert not asked.HasField("author"), "the control plane says who writes"
    assert plain.idempotency_key not in {"", "mine"}


async def test_errors_are_those_of_the_sdk(server: str, world: World) -> None:
    async with Muster(server) as muster:
        with pytest.raises(NotFound):
            await muster.policies.get(policy_key(ID))
        with pytest.raises(InvalidInput) as wrong:
            await muster.policies.apply([TENANT.replace("rules", "rulez")])
        assert [each.path for each in wrong.value.violations] == ["<text>:8:3"]
        world.fail("DeletePolicy", Failure(code_pb2.ABORTED, "it has version 3"))
        with pytest.raises(Conflict, match="it has version 3"):
            await muster.policies.delete(policy_key("training"), expected_version=2)
    assert world.asked("DeletePolicy")[0].expected_version == 2
    assert not world.shelf.policies


def test_a_program_without_asyncio_has_them_too(server: str, world: World) -> None:
    with MusterSync(server) as muster:
        muster.call(lambda m: m.policies.apply([TENANT, RESEARCH]))
        listed = [each.name for each in muster.each(lambda m: m.policies.list(workload="training"))]
        assert listed == ["house", "research-trainings"]
        held = muster.call(lambda m: m.policies.effective("training", project="vision", cluster="north"))
        assert [each.path for each in held.rules][:1] == ["backoffLimit"]
        versions = muster.call(lambda m: m.policies.versions(policy_key("training"))).versions
        assert [each.version for each in versions] == [1]
        draft = draft_of("kind: TrainingWorkload\napiVersion: run.ai/v2alpha1\nspec: {command: {value: x}}\n", "vision")
        (judgement,) = muster.call(lambda m: m.policies.judge([draft]))
        assert judgement.admitted.effective_spec.cpu == "1"
    assert (world.asked("GetEffectivePolicy")[0].project, world.asked("GetEffectivePolicy")[0].cluster) == (
        "vision",
        "north",
    )


def test_which_policy_is_meant() -> None:
    assert policy_key(ID) == api.PolicyKey(id=ID)
    assert policy_key("training") == api.PolicyKey(workload="training", scope=api.PolicyScope(level="tenant"))
    scope = policy_scope(department="research")
    assert scope == api.PolicyScope(level="department", unit="research")
    assert policy_key("inference", scope) == api.PolicyKey(workload="inference", scope=scope)
    assert policy_scope(cluster="north").level == "cluster"
    assert policy_scope(project="vision").unit == "vision"
    with pytest.raises(ValueError, match="cluster and project are given"):
        policy_scope(cluster="north", project="vision")
