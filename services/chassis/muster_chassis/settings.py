"""What the environment tells a process: one class a concern, read once at start.

Services derive from these and add their own fields. A setting that is missing or wrong stops the process before it
touches anything, with a message that names the variable.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, ClassVar, Final, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from muster_chassis.broker import Broker, CredentialError, Security, read_password
from muster_chassis.certificates import read_pair
from muster_chassis.key_files import SecretFile, TrustPath


class AuthMode(StrEnum):
    """Who a caller is: `off` makes everyone `local` (the embedded stack only), `jwt` asks for a token."""

    OFF = "off"
    JWT = "jwt"


def _as_address(text: object) -> object:
    host, separator, port = str(text).rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the last TCP port
        raise ValueError(f"{text!r} is no address: expected HOST:PORT, such as 127.0.0.1:7070")
    return text


def _as_addresses(text: object) -> object:
    several = str(text).split(",")
    for one in several:
        _as_address(one)
        if len(several) > 1 and not _is_ipv4(one.rpartition(":")[0]):
            raise ValueError(f"{text!r}: several addresses, {one!r} among them, which has no IPv4 address as its host")
    return text


def _is_ipv4(host: str) -> bool:
    try:
        return ip_address(host).version == 4  # noqa: PLR2004
    except ValueError:
        return False


Address = Annotated[str, BeforeValidator(_as_address)]
Addresses = Annotated[str, BeforeValidator(_as_addresses)]
"""One HOST:PORT, or several IPv4 addresses with their ports, separated by commas: any of them serves."""


def on_loopback(addresses: str) -> bool:
    """Whether HOST:PORT, or each of several, can be reached from this very machine only."""
    return all(_loopback(one.rpartition(":")[0].strip("[]")) for one in addresses.split(","))


def anywhere(address: str) -> bool:
    """Whether HOST:PORT stands for all addresses of this machine, so that others need another one to reach it."""
    return address.rpartition(":")[0].strip("[]") in {"", "0.0.0.0", "::"}  # noqa: S104 - it is compared, not opened


class RetentionSettings(BaseSettings):
    """For how long what is over stays at hand, in every service and on Kafka."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    retention_seconds: float = Field(
        default=7 * 24 * 3600.0,
        ge=60,
        le=366 * 24 * 3600,
        description="For how long what is over is kept at hand: records on Kafka, the events of a workload that has "
        "ended (their version numbers twice as long) and, in submission, the workload itself before it is archived. "
        "Alike in all services, and shorter than a week only where none is ever down for that time.",
    )

    @property
    def retention(self) -> timedelta:
        """For how long what is over is kept at hand."""
        return timedelta(seconds=self.retention_seconds)


class Settings(RetentionSettings):
    """What every process has: a name, Kafka, a place for its metrics."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    instance: str = Field(
        min_length=1,
        max_length=200,
        description="Stable name of this process among its kind; the group instance id on Kafka.",
    )
    kafka_bootstrap: str = Field(min_length=1, description="Kafka brokers, HOST:PORT separated by commas.")
    kafka_security: Security = Field(
        default=Security.SASL_SSL,
        description="sasl_ssl, sasl_plaintext (a broker on the loopback), or plaintext (no authentication at all).",
    )
    kafka_user: str = Field(default="", max_length=200, description="The SCRAM user of this process.")
    kafka_password_file: Path | None = Field(
        default=None, description="The file with its password, readable by its owner only; read again when replaced."
    )
    kafka_ca: Path | None = Field(
        default=None, description="Certificates (PEM) that sasl_ssl trusts; the system's where it is not set."
    )
    kafka_replication: int = Field(
        default=3,
        ge=1,
        le=32,
        description="Replicas of each topic that is made; fewer where Kafka has fewer brokers. All but one have to "
        "have a record before it is acknowledged.",
    )
    metrics_listen: Address = Field(description="Where Prometheus reads this process, HOST:PORT.")
    log_level: str = Field(default="info", description="debug, info, warning or error.")
    shutdown_seconds: float = Field(default=10.0, gt=0, le=300, description="Bound for a graceful stop, in seconds.")
    stall_seconds: float = Field(
        default=10.0,
        ge=1,
        le=3600,
        description="For how long the event loop may be blocked; then the process writes every stack to its log and "
        "ends, and its keeper starts it again.",
    )
    otlp_endpoint: str | None = Field(
        default=None,
        validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="Where spans are exported to; nothing is exported where it is not set.",
    )

    @property
    def broker(self) -> Broker:
        """Where Kafka is, and as whom this process connects."""
        return Broker(
            self.kafka_bootstrap,
            self.kafka_security,
            self.kafka_user,
            self.kafka_password_file,
            self.kafka_ca,
            self.kafka_replication,
            self.retention,
        )

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if self.kafka_security is Security.PLAINTEXT:
            return self
        if not self.kafka_user or self.kafka_password_file is None:
            raise ValueError(
                f"MUSTER_KAFKA_SECURITY={self.kafka_security} needs MUSTER_KAFKA_USER and MUSTER_KAFKA_PASSWORD_FILE; "
                "a broker without authentication needs MUSTER_KAFKA_SECURITY=plaintext"
            )
        try:
            read_password(self.kafka_password_file)
            self.broker.context()
        except CredentialError as error:
            raise ValueError(str(error)) from error
        except OSError as error:
            raise ValueError(f"MUSTER_KAFKA_CA={self.kafka_ca} cannot be used: {error}") from error
        return self


class DatabaseSettings(RetentionSettings):
    """PostgreSQL: one schema and one role a service."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    database_url: SecretStr = Field(description="postgresql://role:password@/database?host=DIRECTORY, or over TCP.")
    database_schema: str = Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$", description="The schema that this service owns.")
    database_connections: int = Field(default=8, ge=2, le=100, description="Connections, opened at the start.")
    database_statement_seconds: float = Field(
        default=4.0,
        gt=0,
        le=300,
        description="Bound for one statement and for an idle transaction; below the lease of 5 s (rule 5).",
    )


def fetchable(url: str) -> bool:
    """Whether keys may be fetched from there: https, or http on this very machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if parts.username is not None or parts.fragment or not host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _loopback(host))


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


PUBLIC_ALGORITHMS: Final = ("ES256", "ES384", "EdDSA", "PS256", "RS256")
_SHORTEST_SECRET: Final = 32  # bytes; a shorter HMAC key can be guessed from one token


class IssuerSettings(BaseModel):
    """Someone whose tokens count."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: str = Field(min_length=1, max_length=500, description="The claim `iss` of its tokens.")
    audience: str = Field(min_length=1, max_length=500, description="The audience that its tokens must have.")
    jwks_url: str | None = Field(default=None, description="Where it publishes its keys: https, or http on loopback.")
    key_file: Path | None = Field(default=None, description="Instead: its public key (PEM), or the secret of HS256.")
    algorithms: tuple[str, ...] = Field(default=("ES256", "EdDSA", "RS256"), description="What it signs with.")
    groups_claim: str = Field(default="", max_length=100, description="The claim with groups; empty: none are taken.")

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if (self.jwks_url is None) == (self.key_file is None):
            raise ValueError(f"issuer {self.issuer!r} needs either jwks_url or key_file")
        if self.jwks_url is not None and not fetchable(self.jwks_url):
            raise ValueError(f"jwks_url is {self.jwks_url!r}: https is needed, or http on the loopback")
        secret = self.algorithms == ("HS256",) and self.key_file is not None
        if not secret and (not self.algorithms or set(self.algorithms) - set(PUBLIC_ALGORITHMS)):
            raise ValueError(
                f"issuer {self.issuer!r} signs with {list(self.algorithms)}: any of {list(PUBLIC_ALGORITHMS)}, or "
                "HS256 alone with a key_file"
            )
        return self

    def key(self) -> bytes:
        """What is in the key file. Raises ValueError for a key that cannot be meant, and OSError."""
        key = (self.key_file or Path()).read_bytes().strip()
        if b"PRIVATE KEY" in key:
            raise ValueError(f"{self.key_file} holds a private key; a service only needs the public one")
        if (b"-----BEGIN" in key) == (self.algorithms == ("HS256",)):
            raise ValueError(f"{self.key_file} is no key for {', '.join(self.algorithms)}")
        if self.algorithms == ("HS256",) and len(key) < _SHORTEST_SECRET:
            raise ValueError(f"the key of HS256 has {len(key)} bytes; at least {_SHORTEST_SECRET} are needed")
        return key


class CallKind(StrEnum):
    """What a call holds while it is under way: each kind has limits of its own."""

    UNARY = "unary"
    WATCH = "watch"
    LOG = "log"
    AGENT = "agent"
    OPEN = "open"  # without a token: health checks, the exchange of tokens
    OPEN_STREAM = "open-stream"  # without a token: watches of health, reflection
    REST = "rest"


class CallLimit(BaseModel):
    """Of one kind of call: `reserve` of `most` is kept for administrators.

    caller 0: no limit of its own for one caller, as for a service that calls for others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    most: int = Field(ge=1, le=100_000, description="Calls under way in all.")
    caller: int = Field(default=0, ge=0, le=100_000, description="Of one caller; 0: as many as in all.")
    reserve: int = Field(default=0, ge=0, le=100_000, description="Of `most`, kept for administrators.")

    @model_validator(mode="after")
    def _leaves_something(self) -> Self:
        if self.reserve >= self.most:
            raise ValueError(f"reserve is {self.reserve} of {self.most}: it has to leave something for everyone else")
        return self


class RpcSettings(BaseSettings):
    """The gRPC server and who may call it."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)
    vouches_itself: ClassVar[bool] = False
    """Whether the service makes tokens of its own, so that it needs no other issuer."""

    grpc_listen: Address = Field(description="Where gRPC listens, HOST:PORT.")
    ports_reserved: bool = Field(
        default=False,
        description="Whether another process of the same user holds the ports with SO_REUSEPORT, so that no other user "
        "can take them while this service restarts; the embedded stack of root does.",
    )
    auth: AuthMode = Field(default=AuthMode.JWT, description="off or jwt.")
    auth_issuers: tuple[IssuerSettings, ...] = Field(
        default=(),
        max_length=20,
        description='Whose tokens count, a JSON list: [{"issuer": .., "audience": .., "jwks_url": ..}].',
    )

    call_limits: dict[CallKind, CallLimit] = Field(
        default_factory=dict,
        description="How many calls may be under way at once, by kind (unary, watch, log, agent, open, open-stream, "
        'rest); what is left out keeps its default: {"watch": {"most": 1000, "caller": 100, "reserve": 100}}.',
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.auth is AuthMode.JWT and not self.auth_issuers and not self.vouches_itself:
            raise ValueError("MUSTER_AUTH=jwt needs MUSTER_AUTH_ISSUERS; MUSTER_AUTH=off lets everyone in as 'local'")
        names = [one.issuer for one in self.auth_issuers]
        if len(set(names)) < len(names):
            raise ValueError(f"MUSTER_AUTH_ISSUERS names an issuer twice: {names}")
        return self


class TlsSettings(BaseSettings):
    """TLS of the gRPC server that people and agents reach over a network."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    tls_certificate_file: Path | None = Field(
        default=None,
        description="The certificate of the gRPC server and those between it and its authority (PEM, its own first); "
        "without one gRPC is plain. Read again when replaced.",
    )
    tls_key_file: SecretFile | None = Field(
        default=None, description="Its private key (PEM, mode 0600): EC P-256, EC P-384, or RSA with 2048 bits."
    )

    @model_validator(mode="after")
    def _usable_pair(self) -> Self:
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            missing = "MUSTER_TLS_KEY_FILE" if self.tls_key_file is None else "MUSTER_TLS_CERTIFICATE_FILE"
            raise ValueError(f"{missing} is not set: TLS needs the certificate and its key; without both gRPC is plain")
        if self.tls_certificate_file is not None and self.tls_key_file is not None:
            read_pair(self.tls_certificate_file, self.tls_key_file)
        return self


class ServiceSettings(Settings, DatabaseSettings, RpcSettings):
    """Everything that submission, policy and scheduler have in common."""


class InternalSettings(ServiceSettings):
    """A service that only other services call: their keys count, and no MUSTER_AUTH.

    People and their tokens are judged by submission; a token of theirs is refused here.
    """

    vouches_itself: ClassVar[bool] = True
    trust_file: TrustPath = Field(
        description="The trust file (JWKS) with the public keys of the services that may call; written by no one else."
    )
