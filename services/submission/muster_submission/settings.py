"""What the environment tells submission, beside what every service reads."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from muster_chassis.key_files import SecretFile
from muster_chassis.settings import Address, ServiceSettings, TlsSettings

PublicHost = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?$")]


class SubmissionSettings(ServiceSettings, TlsSettings):
    """Addresses of the services whose questions submission passes on. Empty: that service is not there."""

    rest_listen: Address | None = Field(
        default=None, description="Where the REST API listens, HOST:PORT; it is not served where this is not set."
    )
    public_hosts: tuple[PublicHost, ...] = Field(
        default=(),
        max_length=50,
        description="Names under which clients reach the REST API besides the loopback and its own address, a JSON "
        'list of HOST or HOST:PORT: ["muster.example.com"]. Requests for other hosts and of pages of other origins '
        "are refused.",
    )
    vouches_itself: ClassVar[bool] = True
    service_key_file: SecretFile = Field(
        description="Submission's own private key (Ed25519, PEM, mode 0600), with which it calls the services behind."
    )
    auth_own_issuer: str = Field(
        default="muster",
        pattern=r"^[A-Za-z0-9:/._-]{1,200}$",
        description="The claim `iss` of the tokens that applications get here.",
    )
    auth_first_applications: tuple[SecretFile, ...] = Field(
        default=(),
        max_length=10,
        description="Files (mode 0600) with the applications to begin with, a JSON list of paths: "
        '{"id", "secret", "role"} each.',
    )
    tenant_id: int = Field(
        default=1001, ge=1, le=2**31 - 1, description="The number under which the REST API shows the tenant."
    )
    secret_keys_file: SecretFile | None = Field(
        default=None,
        description="Keys under which credentials in specs are stored: lines of `ID BASE64`, the current one first. "
        "Without it a spec with a credential in it is refused.",
    )
    template_fields: tuple[str, ...] = Field(
        default=(),
        max_length=100,
        description="Members of pod templates (ColossalAIJob) that have no field of the language and are let through "
        "without effect, a JSON list of paths such as spec.serviceAccountName; all others are refused.",
    )
    peer_address: Address | None = Field(
        default=None,
        description="Where other instances of submission reach the gRPC of this one, HOST:PORT: they pass calls for "
        "logs on to the instance that the cluster's agent is connected to. Without it MUSTER_GRPC_LISTEN, where that "
        "names one address.",
    )
    peer_ca_file: Path | None = Field(
        default=None,
        description="The authorities (PEM) of the certificates of the other instances, where each has one of its own; "
        "without it they have to show the certificate of MUSTER_TLS_CERTIFICATE_FILE as well.",
    )
    disk_reserve_folder: Path | None = Field(
        default=None,
        description="A folder on the disk that keeps what is accepted, where that disk is of this machine; nothing new "
        "is accepted below MUSTER_DISK_RESERVE.",
    )
    disk_reserve: int = Field(
        default=1 << 30, ge=0, description="Bytes of that disk that have to be free for a workload to be accepted."
    )
    archive_days: float = Field(
        default=0.0,
        ge=0,
        le=36_600,
        description="For how many days a workload that has ended stays in the archive; 0: for ever.",
    )
    archive_folder: Path | None = Field(
        default=None,
        description="A folder into which each month of the archive is written (Parquet) before it is removed; "
        "without it months are removed and not written.",
    )
    scheduler_address: str = Field(
        default="", description="gRPC of the scheduler, HOST:PORT; two with a comma where a standby follows."
    )
    policy_address: str = Field(default="", description="gRPC of policy, HOST:PORT.")
    telemetry_address: str = Field(default="", description="gRPC of telemetry, HOST:PORT.")

    @model_validator(mode="after")
    def _archived_before_it_goes(self) -> Self:
        if self.archive_days and self.archive_kept < self.retention:
            raise ValueError(
                f"MUSTER_ARCHIVE_DAYS is {self.archive_days:g}: a workload is archived {self.retention} after its end "
                "(MUSTER_RETENTION_SECONDS), so that it has to stay for that long; 0 keeps it for ever"
            )
        return self

    @property
    def archive_kept(self) -> timedelta:
        """How long a workload stays in the archive; zero is for ever."""
        return timedelta(days=self.archive_days)


def addresses(text: str) -> tuple[str, ...]:
    """The addresses in a setting, separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
