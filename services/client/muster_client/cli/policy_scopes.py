"""Which policy a verb means: an id, or a kind of workload and a scope; and which policies a list shows.

Called by the verbs of `muster policies`. Holds: a verb about one policy never guesses its scope, since the tenant's
policy is about all projects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from muster.api.v1 import policies_pb2
from muster_client.cli.options import Common
from muster_client.errors import InvalidInput
from muster_client.policies import policy_key, policy_scope
from muster_kernel.ids import is_uuid
from muster_language.catalogue import nearest
from muster_policy_engine.documents.document import KINDS

SCOPES: Final = "--tenant, --cluster C, --department D or -p P"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class PolicyPlace:
    """A place other than the project (-p)."""

    tenant: Annotated[bool, Parameter(name="--tenant", negative="")] = False
    """The whole tenant."""
    cluster: Annotated[str, Parameter(name="--cluster")] = ""
    """A cluster."""
    department: Annotated[str, Parameter(name="--department")] = ""
    """A department."""

    @property
    def is_named(self) -> bool:
        """Whether one of these options is given. A project may come from the environment, so it does not count."""
        return self.tenant or bool(self.cluster) or bool(self.department)

    def scope(self, common: Common) -> policies_pb2.PolicyScope | None:
        """Return the scope that is named; None if none is. Raises InvalidInput if several are.

        A project counts where no other place is named: it may come from the environment.
        """
        named = [name for name in ("tenant", "cluster", "department") if getattr(self, name)]
        if len(named) > 1:
            raise InvalidInput(f"a policy has one scope, and {' and '.join(f'--{name}' for name in named)} are given")
        if self.is_named:
            return policy_scope(cluster=self.cluster, department=self.department)
        return policy_scope(project=common.project) if common.project else None

    def key(self, policy: str, common: Common) -> policies_pb2.PolicyKey:
        """Return the key of the policy that a person names. Raises InvalidInput."""
        if is_uuid(policy):
            return policy_key(policy)
        return policy_key(kind_of(policy), self.needed(policy, common))

    def needed(self, policy: str, common: Common) -> policies_pb2.PolicyScope:
        """Return the scope that is named. Raises InvalidInput if none is."""
        scope = self.scope(common)
        if scope is None:
            raise InvalidInput(f"{policy}: which scope? one of {SCOPES} is expected")
        return scope


NOWHERE: Final = PolicyPlace()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Wanted:
    """Which policies are meant."""

    workload: Annotated[str, Parameter(name="--workload")] = ""
    """Only those of this kind of workload."""
    source: Annotated[str, Parameter(name="--source")] = ""
    """Only those that this source applied."""

    def kind(self) -> str:
        """Return the kind of workload; empty: every kind. Raises InvalidInput."""
        return kind_of(self.workload) if self.workload else ""


EVERY: Final = Wanted()


def kind_of(word: str) -> str:
    """Return the word if it is a kind of workload. Raises InvalidInput for another word."""
    if word in KINDS:
        return word
    near = nearest(word, list(KINDS))
    hint = f"; did you mean {near}?" if near else ""
    raise InvalidInput(f"{word!r} is neither a kind of workload ({', '.join(KINDS)}) nor the id of a policy{hint}")
