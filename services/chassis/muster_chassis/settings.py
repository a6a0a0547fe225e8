"""What the environment tells a process: one class a concern, read once at start.

Services derive from these and add their own fields. A setting that is missing or wrong stops the process before it
touches anything, with a message that names the variable.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class AuthMode(StrEnum):
    """Who a caller is: `off` makes everyone `local` (the embedded stack only), `jwt` asks for a token."""

    OFF = "off"
    JWT = "jwt"


def _as_address(text: object) -> object:
    host, separator, port = str(text).rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the last TCP port
        raise ValueError(f"{text!r} is no address: expected HOST:PORT, such as 127.0.0.1:7070")
    return text


Address = Annotated[str, BeforeValidator(_as_address)]


class Settings(BaseSettings):
    """What every process has: a name, Kafka, a place for its metrics."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    instance: str = Field(
        min_length=1,
        max_length=200,
        description="Stable name of this process among its kind; the group instance id on Kafka.",
    )
    kafka_bootstrap: str = Field(min_length=1, description="Kafka brokers, HOST:PORT separated by commas.")
    metrics_listen: Address = Field(description="Where Prometheus reads this process, HOST:PORT.")
    log_level: str = Field(default="info", description="debug, info, warning or error.")
    shutdown_seconds: float = Field(default=10.0, gt=0, le=300, description="Bound for a graceful stop, in seconds.")
    otlp_endpoint: str | None = Field(
        default=None,
        validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="Where spans are exported to; nothing is exported where it is not set.",
    )


class DatabaseSettings(BaseSettings):
    """PostgreSQL: one schema and one role a service."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    database_url: SecretStr = Field(description="postgresql://role:password@/database?host=DIRECTORY, or over TCP.")
    database_schema: str = Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$", description="The schema that this service owns.")
    database_connections: int = Field(default=8, ge=2, le=100, description="Connections at most, the relay's included.")
    database_statement_seconds: float = Field(
        default=4.0,
        gt=0,
        le=300,
        description="Bound for one statement and for an idle transaction; below the lease of 5 s (rule 5).",
    )


class RpcSettings(BaseSettings):
    """The gRPC server and who may call it."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    grpc_listen: Address = Field(description="Where gRPC listens, HOST:PORT.")
    auth: AuthMode = Field(default=AuthMode.JWT, description="off or jwt.")
    auth_key_file: Path | None = Field(default=None, description="PEM public key, or the secret of HS256.")
    auth_issuer: str | None = Field(default=None, description="The only issuer that tokens may have.")
    auth_audience: str | None = Field(default=None, description="The audience that tokens must have.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        asked = {
            "MUSTER_AUTH_KEY_FILE": self.auth_key_file,
            "MUSTER_AUTH_ISSUER": self.auth_issuer,
            "MUSTER_AUTH_AUDIENCE": self.auth_audience,
        }
        missing = [name for name, value in asked.items() if not value]
        if self.auth is AuthMode.JWT and missing:
            raise ValueError(f"MUSTER_AUTH=jwt needs {', '.join(missing)}; MUSTER_AUTH=off lets everyone in as 'local'")
        return self


class ServiceSettings(Settings, DatabaseSettings, RpcSettings):
    """Everything that submission, policy and scheduler have in common."""
