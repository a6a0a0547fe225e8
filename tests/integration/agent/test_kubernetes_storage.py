"""Claims on the Kubernetes back end: which outlive a run, and which go with it."""

from __future__ import annotations

from dataclasses import replace

from muster_cluster_agent.domain.container import Container
from muster_cluster_agent.domain.kubernetes.names import workload_base
from muster_cluster_agent.domain.model import Assignment, Release
from muster_cluster_agent.domain.storage import ExistingClaim, NewClaim, Volume
from muster_kernel.reasons import ChangeReason
from tests.support.kubernetes_backends import scene
from tests.support.kubernetes_loops import ID, Loop, assignment, loop

KEPT = Volume("data", "/data", NewClaim("1"))
SHORT = Volume("tmp", "/tmp2", NewClaim("1", ephemeral=True))


def training(*volumes: Volume, attempt: int = 0) -> Assignment:
    of = assignment("sleep 1000", attempt=attempt)
    template = replace(of.newest.template, container=Container("i", volumes=volumes))
    return replace(of, revisions=(replace(of.newest, template=template),))


def claims(here: Loop) -> list[str]:
    return sorted(one["metadata"]["name"] for one in here.server.objects["persistentvolumeclaims"].values())


async def test_data_is_kept_over_a_suspension_and_goes_with_its_workload() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(training(KEPT, SHORT))
        await here.told_last("READY")
        assert claims(here) == [f"{workload_base(ID)}-data", f"{workload_base(ID)}-g1-a0-tmp"]
        uid = here.server.objects["persistentvolumeclaims"][f"runai-p/{workload_base(ID)}-data"]["metadata"]["uid"]
        here.agent.take(Release(ID, 1, 1, 0, 5.0, ChangeReason.SUSPENDED.value))
        await here.until(lambda: claims(here) == [f"{workload_base(ID)}-data"])
        here.agent.take(training(KEPT, SHORT, attempt=1))
        await here.told_last("READY")
        found = here.server.objects["persistentvolumeclaims"][f"runai-p/{workload_base(ID)}-data"]
        assert found["metadata"]["uid"] == uid
        here.agent.take(Release(ID, 1, 1, 1, 5.0, ChangeReason.SUSPENDED.value))
        await here.until(lambda: not here.pods())
        await here.backend.forget([ID])
        await here.nothing_left()


async def test_a_claim_that_a_later_spec_does_not_name_keeps_its_data() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(training(KEPT))
        await here.told_last("READY")
        here.agent.take(training(Volume("more", "/more", NewClaim("1")), attempt=1))
        await here.until(lambda: len(claims(here)) == 2)
        await here.until(lambda: len(made.kubelets.starts) == 2)
        here.agent.take(Release(ID, 1, 1, 1, 5.0, ChangeReason.SUSPENDED.value))
        await here.until(lambda: not here.pods())
        await here.backend.forget([ID])
        await here.nothing_left()


async def test_a_claim_of_others_is_mounted_and_never_deleted() -> None:
    async with scene() as made, loop(made) as here:
        made.server.put("persistentvolumeclaims", {"metadata": {"name": "corpus", "namespace": "runai-p"}})
        here.agent.take(training(Volume("c", "/c", ExistingClaim("corpus"))))
        await here.told_last("READY")
        here.agent.take(Release(ID, 1, 1, 0, 5.0, ChangeReason.DELETED.value))
        await here.nothing_left()
        assert claims(here) == ["corpus"]


async def test_a_new_claim_that_others_have_made_is_a_conflict() -> None:
    async with scene() as made, loop(made) as here:
        made.server.put("persistentvolumeclaims", {"metadata": {"name": "corpus", "namespace": "runai-p"}})
        here.agent.take(training(Volume("c", "/c", NewClaim("1", name="corpus"))))
        report = await here.refused("NameConflict")
        assert "PersistentVolumeClaim runai-p/corpus is there already" in report.refusal.message
        here.agent.take(Release(ID, 1, 1, 0, 5.0, ChangeReason.DELETED.value))
        await here.until(lambda: not here.pods())
        assert claims(here) == ["corpus"]


async def test_the_object_of_another_workload_is_refused_before_anything_is_made() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(training(Volume("c", "/c", ExistingClaim("w-aaaaaaaaaaaaaaaaaaaa-data"))))
        report = await here.refused("Unsupported")
        assert "Muster's own" in report.refusal.message
        assert here.of_ours() == []
