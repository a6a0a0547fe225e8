"""What can go wrong in the agent.

AgentError
    ClusterFileError    the cluster file cannot be used        (the agent does not start; a running one keeps the last
    good one) StateFolderError    the state folder belongs to another agent, or cannot be written BackendError
    the back end does not answer           (looked at again) NotAllowed          a replica
    asks for what its project was not given       (it does not start) BadRecord           a record that is no assignment
    (dead letter; architecture rule 11) SecretsError    no service hands out a workload's credentials (tried again)

None becomes a gRPC code: agents serve no calls of users.
"""

from __future__ import annotations


class AgentError(Exception):
    """Anything below."""


class ClusterFileError(AgentError):
    """The cluster file cannot be read or holds something that is not allowed."""


class StateFolderError(AgentError):
    """The state folder cannot be used."""


class BackendError(AgentError):
    """The back end does not answer."""


class NotAllowed(BackendError):
    """A replica asks for what its project was not given on this machine: it does not start."""


class BadRecord(AgentError):
    """A record on the assignments topic that cannot be understood.

    `workload_id`: whose it is, as far as it can be told.
    """

    def __init__(self, reason: str, workload_id: str = "", generation: int = 0, attempt: int = 0) -> None:
        """`reason`: a sentence for people."""
        super().__init__(reason)
        self.workload_id = workload_id
        self.generation = generation
        self.attempt = attempt


class SecretsError(AgentError):
    """Submission does not hand out a workload's credentials."""
