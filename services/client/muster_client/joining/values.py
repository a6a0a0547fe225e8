"""What is known of an agent that is to be installed, and what all objects of its installation have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster_kernel.agent_rights import ACCOUNT
from muster_kernel.cluster_labels import CLUSTER


@dataclass(frozen=True, slots=True)
class BusAccess:
    """How an agent logs in to Kafka.

    bootstrap: HOST:PORT, several separated by commas. security: sasl_ssl, sasl_plaintext or plaintext. ca: certificates
    (PEM) that sasl_ssl trusts; empty: the system's.
    """

    bootstrap: str
    security: str
    user: str = ""
    password: str = ""
    ca: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """An agent in its cluster.

    namespace: the agent's own. projects: the namespaces of projects that are there already; empty: the agent makes
    them. cluster_file, trust: the two files that it reads. submission: HOST:PORT of submission's gRPC; submission_tls:
    whether it is reached by TLS; submission_ca: certificates (PEM) that are trusted then; empty: the system's.
    application: the id and secret that the agent logs in with; None: the Secret, whose content is shown once, is left
    out. image: that of the Deployment; empty: there is none, and the agent runs elsewhere. mig_manager: whether the
    cluster file says that the cluster has one.
    """

    cluster: str
    namespace: str
    projects: tuple[str, ...]
    cluster_file: str
    trust: str
    submission: str
    submission_tls: bool
    submission_ca: str
    bus: BusAccess
    application: tuple[str, str] | None
    image: str
    mig_manager: bool = False

    @property
    def managed(self) -> bool:
        """Whether the agent makes the namespaces of projects."""
        return not self.projects

    @property
    def cluster_wide_name(self) -> str:
        """The name of its objects that belong to no namespace; two clusters of Muster may share one of Kubernetes."""
        return f"{ACCOUNT}-{self.cluster}"

    @property
    def user(self) -> str:
        """The name that the API server knows the agent by."""
        return f"system:serviceaccount:{self.namespace}:{ACCOUNT}"


def application_name(cluster: str) -> str:
    """The application that a cluster's agent logs in as."""
    return f"agent-{cluster}"


def manifest(
    installation: Installation, api: str, kind: str, name: str, *, namespace: str = "", **content: Any
) -> dict[str, Any]:
    """An object of the installation. content: its other fields.

    It has no label by which the agent finds the objects that it makes itself.
    """
    labels = {"app.kubernetes.io/part-of": "muster", CLUSTER: installation.cluster}
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}
