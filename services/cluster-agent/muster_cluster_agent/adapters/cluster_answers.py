"""What an agent answers about its cluster, as messages: the findings of a check, and what came of retiring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.api.v1 import agent_gateway_pb2
from muster.fleet.v1 import fleet_pb2
from muster_cluster_agent.domain.findings import Finding, Severity
from muster_cluster_agent.domain.retirement import Retirement

_LONGEST: Final = 2000  # characters of a finding: a webhook's answer may be long
_MOST: Final = 500
_SEVERITIES: Final[Mapping[Severity, fleet_pb2.FindingLevel.ValueType]] = {
    Severity.OK: fleet_pb2.FINDING_LEVEL_OK,
    Severity.WARNING: fleet_pb2.FINDING_LEVEL_WARNING,
    Severity.ERROR: fleet_pb2.FINDING_LEVEL_ERROR,
}


def encode_findings(request_id: str, found: Sequence[Finding]) -> agent_gateway_pb2.CheckResult:
    """The answer to one question; what exceeds 500 findings is left out."""
    return agent_gateway_pb2.CheckResult(
        request_id=request_id,
        findings=[
            fleet_pb2.Finding(level=_SEVERITIES[one.severity], subject=one.subject, text=one.text[:_LONGEST])
            for one in found[:_MOST]
        ],
    )


def encode_retirement(request_id: str, came: Retirement) -> agent_gateway_pb2.RetireResult:
    """The answer to one question; what exceeds 500 objects is left out."""
    return agent_gateway_pb2.RetireResult(
        request_id=request_id,
        retirement=fleet_pb2.Retirement(
            obstacles=came.obstacles,
            namespaces=came.namespaces[:_MOST],
            managed=came.managed,
            own_namespace=came.own_namespace,
            in_cluster=came.in_cluster,
            failures=[text[:_LONGEST] for text in came.failures[:_MOST]],
        ),
    )
