"""What the routes are given: the parts that app_parts.py has wired, and nothing that they could make anew."""

from __future__ import annotations

from dataclasses import dataclass

from muster_chassis.database import Database
from muster_submission.adapters.access_rules import PostgresRules
from muster_submission.adapters.applications import PostgresApplications
from muster_submission.adapters.audit import PostgresAudit
from muster_submission.adapters.fleet import PostgresFleet
from muster_submission.adapters.objects import KnownObjects
from muster_submission.adapters.owners import Owner
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.signing import PostgresSigning
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.handlers.access import Access
from muster_submission.handlers.applications import Applications, Exchange
from muster_submission.handlers.drafts import Drafts
from muster_submission.handlers.grants import Grants
from muster_submission.handlers.intents import Intents
from muster_submission.handlers.node_pools import NodePools
from muster_submission.handlers.objects import Objects
from muster_submission.handlers.submit import Submit
from muster_submission.rpc.tenancy import Tenancy


@dataclass(frozen=True, slots=True)
class Gates:
    """What is about access: roles, applications, their tokens, the audit."""

    grants: Grants
    rules: PostgresRules
    applications: Applications
    application_books: PostgresApplications
    exchange: Exchange
    signing: PostgresSigning
    audit: PostgresAudit


@dataclass(frozen=True, slots=True)
class Parts:
    """The wired parts."""

    database: Database
    access: Access
    reading: Reading
    verdicts: Verdicts
    drafts: Drafts
    submit: Submit
    intents: Intents
    objects: Objects
    known: KnownObjects
    tenancy: PostgresTenancy
    organisation: Tenancy
    fleet: PostgresFleet
    node_pools: NodePools
    gates: Gates
    tenant_id: int
    scheduler: Owner
