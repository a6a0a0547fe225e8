"""Messages that come with a question instead of on a topic: the same values; what is wrong is told to the caller."""

from __future__ import annotations

from muster.events.v1 import policy_pb2
from muster_chassis.errors import InvalidArgument, Violation
from muster_chassis.events import Reject
from muster_scheduler.domain.events import Admitted
from muster_scheduler.stream import intentions


def read_admitted(message: policy_pb2.WorkloadAdmitted) -> Admitted:
    """An admission that nobody has made. Raises InvalidArgument."""
    try:
        return intentions.admitted(message)
    except Reject as error:
        raise InvalidArgument(str(error), violations=[Violation("admitted", str(error))]) from error
