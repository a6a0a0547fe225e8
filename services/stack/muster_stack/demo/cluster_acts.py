"""The eight acts on a Kubernetes cluster. What a cluster cannot show is explained: by `why`, or by what it lacks.

Called by the command with `--cluster`. Holds: as in `acts.py`, and an act that cannot be shown raises Explained.
"""

from __future__ import annotations

from typing import Final

from muster_client import Phase
from muster_kernel.reasons import WaitingReason
from muster_stack.demo import acts
from muster_stack.demo.acts import Act, require
from muster_stack.demo.scene import START, Scene


class Explained(Exception):
    """What an act shows does not exist in this cluster; the text says why."""


async def half(scene: Scene) -> str:
    """Half a device: a cluster that does not divide its devices refuses it and says so."""
    if not scene.gpus:
        raise Explained("no node of the cluster has a GPU")
    workload = await scene.submit("half")
    told = await acts.why_waiting(scene, workload.id)
    require(
        told.reason.code == WaitingReason.NOT_SUPPORTED.value, f"why says {told.reason.code}: {told.reason.message}"
    )
    await scene.delete(workload.id)
    raise Explained(told.reason.message)


async def parallel(scene: Scene) -> str:
    """Two workers of torchrun train one model."""
    if not scene.images["torch"]:
        raise Explained("no image with torch is named (--torch-image)")
    workload = await scene.submit("parallel")
    await scene.completed(workload.id)
    summary = await scene.summary(workload.id)
    require(summary["in_step"] is True, "the ranks did not come to the same weights")
    return f"{summary['world']} ranks in step, {acts.require_falling(summary)}"


async def allreduce(scene: Scene) -> str:
    """Four ranks of MPI on two workers add up what they have."""
    if not scene.images["mpi"]:
        raise Explained("no image with sshd, OpenMPI and mpi4py is named (--mpi-image)")
    return await acts.allreduce(scene)


async def service(scene: Scene) -> str:
    """A service of two replicas answers a workload in the cluster behind one address."""
    workload = await scene.submit("service")
    entry = await scene.diary.until(
        workload.id,
        lambda each: [one.state for one in each.workload.replicas] == ["READY"] * 2 and bool(each.workload.endpoints),
        seconds=START,
        what="both replicas of squares are ready, and it has an address",
    )
    address = entry.workload.endpoints[0]
    caller = await scene.submit("caller", address=address)
    await scene.completed(caller.id)
    told = await scene.summary(caller.id)
    require(told["wrong"] == 0, f"{told['wrong']} of {told['questions']} answers are wrong")
    require(len(told["replicas"]) == 2, f"{len(told['replicas'])} of 2 replicas answered")  # noqa: PLR2004
    await scene.delete(workload.id)
    return f"{told['questions']} answers from 2 replicas at {address}"


async def patient(scene: Scene) -> str:
    """A training is suspended, gives its device back, and runs again later."""
    workload = await scene.submit("patient")
    await scene.diary.becomes(workload.id, Phase.RUNNING, seconds=START)
    await scene.muster.suspend(workload.id, key="demo-suspend")
    stopped = await scene.diary.becomes(workload.id, Phase.STOPPED, seconds=START)
    left = [each.name for each in stopped.workload.replicas if each.state not in {"GONE", ""}]
    require(not left, f"{', '.join(left)} is still there while it is suspended")
    await scene.muster.resume(workload.id, key="demo-resume")
    entry = await scene.completed(workload.id)
    require(entry.passed(Phase.RUNNING, Phase.STOPPED, Phase.COMPLETED), f"phases were {entry.phases}")
    summary = await scene.summary(workload.id)
    return f"ran again from step {summary['resumed_at']}, since it has no volume; attempt {summary['attempt']}"


async def preempted(scene: Scene) -> str:
    """Something urgent takes the place of something less urgent of its project, which finishes later."""
    if not scene.gpus:
        raise Explained("no node of the cluster has a GPU, of which the project may have one")
    background = await scene.submit("background")
    await scene.diary.becomes(background.id, Phase.RUNNING, seconds=START)
    urgent = await scene.submit("urgent")
    done = await scene.completed(urgent.id)
    first = await scene.completed(background.id)
    require((done.ended or 0) < (first.ended or 0), "the urgent one ended after the one that it preempted")
    require(first.passed(Phase.RUNNING, Phase.PENDING, Phase.RUNNING, Phase.COMPLETED), f"phases were {first.phases}")
    return f"by urgent; ran again later, attempt {first.workload.attempt}"


async def giant(scene: Scene) -> str:
    """What can never fit waits, and says why."""
    if not scene.gpus:
        raise Explained("no node of the cluster has a GPU, and it asks for more than a node has")
    return await acts.giant(scene)


ACTS: Final = (
    Act("training on half a GPU", ("half-a-gpu",), half),
    Act("torchrun, 2 workers", ("data-parallel",), parallel),
    Act("MPI, 4 ranks", ("allreduce",), allreduce),
    Act("inference over HTTP", ("squares", "caller"), service),
    Act("run started by an event", ("nightly",), acts.event),
    Act("suspended and resumed", ("patient",), patient),
    Act("preempted, finished later", ("background", "urgent"), preempted),
    Act("never fits, and why", ("giant",), giant),
)
