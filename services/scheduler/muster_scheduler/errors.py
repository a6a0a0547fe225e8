"""What callers of the scheduler may be told, and which gRPC code each becomes.

ServiceError (chassis)
Unavailable
NotLeading         UNAVAILABLE          a standby, or a leader that still reads up
NotFound
UnknownCluster     NOT_FOUND
UnknownInstance    NOT_FOUND            no agent of that instance has reported for the cluster
UnknownNode        NOT_FOUND
UnknownWorkload    NOT_FOUND
FailedPrecondition
AgentAlive         FAILED_PRECONDITION  the agent that speaks for the cluster was heard a moment ago
NoDeadMan          FAILED_PRECONDITION  its agent does not end replicas by itself: no time gives them back
NodeAnswers        FAILED_PRECONDITION  its agent says that it is there: it cannot be forced gone
LayoutRefused      FAILED_PRECONDITION  the MIG layout of the node cannot be changed now
"""

from __future__ import annotations

from muster_chassis.errors import FailedPrecondition, NotFound, Unavailable


class NotLeading(Unavailable):
    """This process does not lead, or has not read everything yet."""

    reason = "NOT_LEADING"


class UnknownCluster(NotFound):
    """No cluster of that id is registered."""

    reason = "UNKNOWN_CLUSTER"


class UnknownInstance(NotFound):
    """No agent of that instance has reported for the cluster."""

    reason = "UNKNOWN_INSTANCE"


class UnknownNode(NotFound):
    """The cluster has no node of that name."""

    reason = "UNKNOWN_NODE"


class UnknownWorkload(NotFound):
    """The scheduler has never heard of that workload."""

    reason = "UNKNOWN_WORKLOAD"


class AgentAlive(FailedPrecondition):
    """The agent that speaks for the cluster lives, so that its replicas cannot be declared gone by mistake."""

    reason = "AGENT_ALIVE"


class ClusterInUse(FailedPrecondition):
    """The cluster that is to leave the fleet still holds replicas."""

    reason = "CLUSTER_IN_USE"


class NoDeadMan(FailedPrecondition):
    """The agent of the cluster has no dead-man's deadline: its replicas run on, however long it is silent."""

    reason = "NO_DEAD_MAN"


class NodeAnswers(FailedPrecondition):
    """The node is ready, so nobody may vouch for it being gone."""

    reason = "NODE_ANSWERS"


class LayoutRefused(FailedPrecondition):
    """The MIG layout of the node cannot be changed: it has no MIG, others hold it, or a change is under way."""

    reason = "LAYOUT_REFUSED"
