"""Explanations of waiting workloads and answers to what-if questions as protobuf. The RPC of questions calls it."""

from __future__ import annotations

from typing import Final

from muster.api.v1 import explain_pb2 as pb
from muster.events.v1 import scheduler_pb2
from muster.workload.v1 import workload_pb2
from muster_scheduler.adapters import encoding
from muster_scheduler.domain.answers.estimates import Estimate
from muster_scheduler.domain.answers.explain import Explanation
from muster_scheduler.domain.answers.growing import Growth
from muster_scheduler.domain.answers.prospects import Displaced, Outlook, Prospect, Prospects
from muster_scheduler.domain.answers.shares import QueueShare
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.asked.refusals import NEVER, Refusal
from muster_scheduler.domain.asked.workloads import Workload

_OUTLOOKS: Final = {
    Outlook.STARTS: pb.OUTLOOK_STARTS,
    Outlook.STARTS_AFTER: pb.OUTLOOK_STARTS_AFTER,
    Outlook.WAITS: pb.OUTLOOK_WAITS,
}


def viewer(readable: pb.Readable) -> Viewer:
    """Return the viewer of an answer: it sees only what `readable` lists."""
    if readable.everything:
        return EVERYONE
    return Viewer(frozenset(readable.projects), frozenset(readable.departments))


def explanation(workload: Workload, answer: Explanation) -> scheduler_pb2.Explanation:
    """Return why a workload waits, or why it is in its phase."""
    reason = answer.reason
    if reason is not None:
        text = reason.sentence(department=answer.figures)
        text = f"{text}; {answer.message}" if answer.message else text
        said = workload_pb2.Reason(code=reason.code.value, message=text)
    else:
        text = answer.message or encoding.SENTENCES[workload.reason]
        said = workload_pb2.Reason(code=workload.reason.value, message=text)
    return scheduler_pb2.Explanation(
        workload_id=workload.id,
        name=workload.name,
        reason=said,
        asks=answer.asks,
        node_pool=answer.pool,
        queued_at=encoding.timestamp(workload.queued),
        rank=answer.rank,
        excluded=[
            scheduler_pb2.ExcludedNodes(constraint=constraint.value, nodes=number, text=text)
            for constraint, number, text in answer.excluded
        ],
        unblockers=answer.unblockers,
        phase=encoding.PHASES[workload.phase],
        project=workload.project,
        attempts=[scheduler_pb2.RoomAttempt(way=each.way, lack=each.lack, text=each.text) for each in answer.attempts],
        shares=[_share(each) for each in answer.shares],
        estimate=_estimate(answer.estimate) if answer.estimate else None,
        nearest=answer.nearest,
        growth=_growth(answer.growth) if answer.growth else None,
        refusals=[_refusal(each) for each in answer.refusals],
    )


def _refusal(told: Refusal) -> scheduler_pb2.SeenRefusal:
    return scheduler_pb2.SeenRefusal(
        cluster=told.cluster,
        node=told.node,
        reason=workload_pb2.Reason(code=told.code, message=told.message),
        at=encoding.timestamp(told.at),
        again_at=encoding.timestamp(told.until) if told.until < NEVER else None,
        times=told.times,
    )


def _growth(told: Growth) -> scheduler_pb2.Growth:
    reason = workload_pb2.Reason(code=told.code, message=told.text)
    return scheduler_pb2.Growth(replicas=told.has, wanted=told.wanted, reason=reason, before=told.before)


def _estimate(told: Estimate) -> scheduler_pb2.StartEstimate:
    earliest = encoding.timestamp(told.earliest) if told.earliest else None
    latest = encoding.timestamp(told.latest) if told.latest else None
    likely = encoding.timestamp(told.likely) if told.likely else None
    return scheduler_pb2.StartEstimate(earliest=earliest, latest=latest, basis=told.basis, likely=likely)


def _share(told: QueueShare) -> scheduler_pb2.QueueShare:
    return scheduler_pb2.QueueShare(
        queue=told.queue,
        department=told.department,
        node_pool=told.pool,
        gpu_deserved=told.deserved,
        gpu_fair=told.fair,
        gpu_held=told.held,
        gpu_wanted=told.wanted,
        gpu_total=told.total,
        gpu_mig=told.mig,
    )


def answer(told: Prospects) -> pb.WhatIfResponse:
    """Return the complete answer to a what-if question."""
    places = {prospect.workload.id: place for place, prospect in enumerate(told.prospects, 1)}
    return pb.WhatIfResponse(
        prospects=[_prospect(each) for each in told.prospects],
        displaced=[_displaced(each, places) for each in told.displaced],
        unfinished=told.unfinished,
    )


def _prospect(told: Prospect) -> pb.Prospect:
    explained = told.explanation
    return pb.Prospect(
        name=told.workload.name,
        project=told.workload.project,
        outlook=_OUTLOOKS[told.outlook],
        cluster=told.cluster,
        node_pool=told.pool,
        nodes=[pb.ProspectNode(node=p.node, replicas=p.replicas, gpu_charge=p.charge) for p in told.parts],
        explanation=explanation(told.workload, explained) if explained else None,
        waits_for=len(told.waits_for),
    )


def _displaced(told: Displaced, places: dict[str, int]) -> pb.Displaced:
    return pb.Displaced(
        workload_id=told.workload,
        name=told.name,
        project=told.project,
        gpu_charge=told.charge,
        by=places.get(told.by, 0),
        moves=told.moves,
        replicas_given_up=told.given_up,
        replicas=told.replicas,
    )
