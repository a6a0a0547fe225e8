"""What the environment tells submission, beside what every service reads."""

from __future__ import annotations

from pydantic import Field

from muster_chassis.settings import Address, ServiceSettings


class SubmissionSettings(ServiceSettings):
    """Addresses of the services whose questions submission passes on. Empty: that service is not there."""

    rest_listen: Address | None = Field(
        default=None, description="Where the REST API listens, HOST:PORT; it is not served where this is not set."
    )
    tenant_id: int = Field(
        default=1001, ge=1, le=2**31 - 1, description="The number under which the REST API shows the tenant."
    )
    scheduler_address: str = Field(
        default="", description="gRPC of the scheduler, HOST:PORT; two with a comma where a standby follows."
    )
    policy_address: str = Field(default="", description="gRPC of policy, HOST:PORT.")
    telemetry_address: str = Field(default="", description="gRPC of telemetry, HOST:PORT.")


def addresses(text: str) -> tuple[str, ...]:
    """The addresses in a setting, separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
