"""What comes in over Kafka: verdicts, decisions, accounts and CloudEvents, turned into domain values for the handlers.

Two consumers: one follows Muster's own topics for the read model, one takes the foreign events of muster.triggers.
Holds: within a batch the order of each topic's records is kept; what is no event of ours, or no CloudEvent, is
rejected with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1 import policy_pb2, scheduler_pb2, telemetry_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.codec import ACCOUNT_BEGUN, MessageDecoder
from muster_chassis.events import Event, Origin, Reject, Retry
from muster_chassis.text import clean
from muster_chassis.topics import ADMISSIONS, ADVICE, DECISIONS
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_submission.adapters.protobuf_events import unpack
from muster_submission.domain import cloudevents, phases, verdicts
from muster_submission.domain import progress as p
from muster_submission.domain.cloudevents import CloudEvent, NoCloudEvent
from muster_submission.errors import DiskReserveSpent
from muster_submission.handlers.firing import Firing
from muster_submission.handlers.progress import Follow, News
from muster_submission.handlers.usage import Accounts
from muster_submission.ports import Account, Reserve

FOLLOWED: Final = (ADMISSIONS, DECISIONS, ADVICE)
_VERDICTS: Final = (policy_pb2.WorkloadAdmitted, policy_pb2.WorkloadRejected)
_DECISIONS: Final = (
    scheduler_pb2.WorkloadQueued,
    scheduler_pb2.WorkloadClaimed,
    scheduler_pb2.WorkloadPlaced,
    scheduler_pb2.WorkloadWaiting,
    scheduler_pb2.WorkloadPreempted,
    scheduler_pb2.WorkloadScaled,
    scheduler_pb2.PhaseChanged,
    scheduler_pb2.RequestRefused,
)
_ADVICE: Final = (telemetry_pb2.UsageAccounted, telemetry_pb2.ScaleAdvised, telemetry_pb2.IdleSince)
_CHARGE: Final = 1 << 62  # of what a column holds
_TEXT: Final = 2000  # characters of a reason that are kept
_LONGEST_MOMENT: Final = 16  # digits: until the year 2286
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def decoder() -> MessageDecoder:
    """Decodes Muster's own topics; advice for the scheduler is let pass unread."""
    types: list[type[Message]] = [*_VERDICTS, *_DECISIONS, *_ADVICE]
    return MessageDecoder(types, [*_VERDICTS, *_DECISIONS, telemetry_pb2.UsageAccounted])


class Followed:
    """The handler of the followed topics."""

    def __init__(self, follow: Follow, accounts: Accounts) -> None:
        self._follow = follow
        self._accounts = accounts

    async def __call__(self, unit: Unit, events: Sequence[Event]) -> None:
        """Takes in a batch of all three topics."""
        read = [event for event in events if event.message is not None]
        usage: dict[str, Account] = {}
        for event in read:
            if isinstance(event.message, telemetry_pb2.UsageAccounted):
                _account(event, event.message, usage)
        await self._follow.take(unit, [_news(event) for event in read if event.origin.topic != ADVICE.name])
        await self._accounts.take(unit, usage)


def cloud_event(origin: Origin) -> Event:
    """Decodes a record of muster.triggers. Raises Reject for what is no CloudEvent.

    The event has no aggregate: events of strangers never wait behind each other.
    """
    found = cloudevents.read(origin.headers, origin.value, unpack)
    if isinstance(found, NoCloudEvent):
        raise Reject(found.why)
    return Event(
        id=found.id,
        type=found.type,
        source=found.source,
        aggregate="",
        version=0,
        time=datetime.fromtimestamp(0, UTC),
        message=None,
        origin=origin,
        traceparent=None,
    )


class Triggered:
    """The handler of muster.triggers."""

    def __init__(self, firing: Firing, reserve: Reserve) -> None:
        self._firing = firing
        self._reserve = reserve

    async def __call__(self, unit: Unit, events: Sequence[Event]) -> None:
        """Write down what the events fire. Raises Retry below the disk's reserve: events wait in Kafka meanwhile."""
        try:
            self._reserve.check()
        except DiskReserveSpent as spent:
            raise Retry(spent.message) from spent
        found = [cloudevents.read(event.origin.headers, event.origin.value, unpack) for event in events]
        await self._firing.take(unit, [one for one in found if isinstance(one, CloudEvent)])


def _news(event: Event) -> News:
    message: Any = event.message
    workload_id = message.workload_id
    if not is_uuid(workload_id):
        raise Reject(f"workload_id is {workload_id!r}: expected a UUID in lower case")
    convert = _CONVERT[type(message)]
    return convert(event, message)


def _plain(event: Event, message: Any, fact: p.Fact) -> News:
    return News(message.workload_id, event.type.rpartition(".")[2], event.version, event.time, fact)


def _admitted(event: Event, message: policy_pb2.WorkloadAdmitted) -> News:
    effective = message.effective_spec.SerializeToString()
    fact = p.Admitted(message.generation, min(sum(one.count * one.gpu_charge for one in message.requests), _CHARGE))
    return News(message.workload_id, "WorkloadAdmitted", event.version, event.time, fact, effective_spec=effective)


def _rejected(event: Event, message: policy_pb2.WorkloadRejected) -> News:
    issues = tuple(
        clean(verdicts.issue(one.path, one.rule, one.given, one.allowed, one.details), _TEXT) for one in message.issues
    )
    return _plain(event, message, p.Rejected(message.generation, issues))


def _placed(event: Event, message: scheduler_pb2.WorkloadPlaced) -> News:
    replicas = sum(run.count for run in message.replicas)
    fact = p.Placed(message.attempt, clean(message.cluster, 100), clean(message.node_pool, 100), replicas)
    return _plain(event, message, fact)


def _moved(event: Event, message: scheduler_pb2.PhaseChanged) -> News:
    phase = phases.phase(message.to)
    if phase is None:
        raise Reject(f"phase {message.to} is none that this version knows")
    fact = p.PhaseMoved(
        before=phases.phase(getattr(message, "from")),
        phase=phase,
        attempt=message.attempt,
        why=_why(message.reason),
        at=_moment(message.at, event.time) if message.HasField("at") else event.time,
        desired=phases.desired_phase(message.desired),
    )
    status = wl.Workload(replicas=message.replicas, endpoints=message.endpoints, conditions=message.conditions)
    if message.HasField("trials"):
        status.trials.CopyFrom(message.trials)
    return News(
        message.workload_id,
        "PhaseChanged",
        event.version,
        fact.at,
        fact,
        status=status.SerializeToString(),
        pods=len(message.replicas),
        bare=not message.replicas and not message.endpoints and not message.HasField("trials"),
    )


_CONVERT: Final[dict[type[Message], Callable[[Event, Any], News]]] = {
    policy_pb2.WorkloadAdmitted: _admitted,
    policy_pb2.WorkloadRejected: _rejected,
    scheduler_pb2.WorkloadPlaced: _placed,
    scheduler_pb2.PhaseChanged: _moved,
    scheduler_pb2.WorkloadQueued: lambda e, m: _plain(e, m, p.Queued(clean(m.node_pool, 100))),
    scheduler_pb2.WorkloadClaimed: lambda e, m: _plain(e, m, p.Claimed(clean(m.cluster, 100), len(m.waits_for))),
    scheduler_pb2.WorkloadWaiting: lambda e, m: _plain(e, m, p.Waiting(_why(m.explanation.reason))),
    scheduler_pb2.WorkloadPreempted: lambda e, m: _plain(e, m, p.Preempted(_why(m.why))),
    scheduler_pb2.WorkloadScaled: lambda e, m: _plain(e, m, p.Scaled(getattr(m, "from"), m.to)),
    scheduler_pb2.RequestRefused: lambda e, m: _plain(e, m, p.RequestRefused(_why(m.reason))),
}


def _why(reason: wl.Reason) -> p.Why:
    if not reason.code and not reason.message:
        return p.NO_REASON
    other = reason.other_workload_id if is_uuid(reason.other_workload_id) else ""
    return p.Why(clean(reason.code, 200), clean(reason.message, _TEXT), other)


def _moment(given: Timestamp, otherwise: datetime) -> datetime:
    """The moment that an event names; one beyond the calendar is replaced by the event's own time."""
    try:
        return given.ToDatetime(UTC)
    except (ValueError, OverflowError):
        return otherwise


def _account(event: Event, message: telemetry_pb2.UsageAccounted, into: dict[str, Account]) -> None:
    if not is_uuid(message.workload_id):
        raise Reject(f"workload_id is {message.workload_id!r}: expected a UUID in lower case")
    if not 0 <= message.gpu_seconds < float("inf"):
        raise Reject(f"gpu_seconds is {message.gpu_seconds}: expected a number of seconds from 0")
    until = _moment(message.until, event.time)
    known = into.get(message.workload_id)
    if known is None or known.until < until:
        into[message.workload_id] = Account(
            clean(message.project, 100), clean(message.name, 100), message.gpu_seconds, until, _begun(event.origin)
        )


def _begun(origin: Origin) -> datetime | None:
    """Return when an account began; None if its record does not say so."""
    text = origin.header(ACCOUNT_BEGUN) or ""
    if not text.isascii() or not text.isdecimal() or len(text) > _LONGEST_MOMENT:
        return None
    return _EPOCH + timedelta(microseconds=int(text))
