"""What the environment tells an agent, beside what every process of Muster is told."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from muster_chassis.key_files import SecretFile, TrustPath
from muster_chassis.rpc.tls import Target, read_authorities
from muster_chassis.settings import Addresses, Settings


class AgentSettings(Settings):
    """An agent has no database and serves no calls; it reads a cluster file and owns a state folder."""

    cluster_file: Path = Field(description="The file that declares the cluster.")
    state_dir: Path | None = Field(
        default=None, description="The agent's own folder, which the local back end needs; one agent a folder."
    )
    submission_address: Addresses = Field(
        description="Where submission serves the agents' gateway, HOST:PORT; several instances separated by "
        "commas, each with an IPv4 address."
    )
    submission_tls: bool = Field(
        default=False,
        description="Reach submission by TLS; the system's authorities are trusted. A CA file implies it.",
    )
    submission_ca_file: Path | None = Field(
        default=None,
        description="The authorities (PEM) that alone are trusted to vouch for submission's certificate; implies TLS. "
        "Read again at each connection.",
    )
    data_dir: Path | None = Field(
        default=None, description="The stack's data folder, which no replica may reach; without one the state folder."
    )
    trust_file: TrustPath = Field(
        description="The trust file (JWKS) with the keys that sign assignments; `muster clusters register` prints it."
    )
    confined: bool = Field(
        default=False, description="Start no replica that cannot be confined, unless the cluster file waives it."
    )
    hold: bool = Field(default=False, description="Accept assignments and start nothing (benchmarks).")
    application_file: SecretFile | None = Field(
        default=None, description='The application that the agent logs in with: {"id": .., "secret": ..}.'
    )

    @model_validator(mode="after")
    def _trusts_someone(self) -> Self:
        if self.submission_ca_file is not None:
            read_authorities(self.submission_ca_file)
        return self

    @property
    def submission(self) -> Target:
        """How submission is reached."""
        secured = self.submission_tls or self.submission_ca_file is not None
        return Target(self.submission_address, secured, self.submission_ca_file)
