"""The agent as pods of its cluster: two of them, of which one leads, and what protects them."""

from __future__ import annotations

from typing import Any, Final

from muster_client.joining.values import Installation, manifest
from muster_kernel.agent_rights import ACCOUNT
from muster_kernel.cluster_labels import CLUSTER

_REPLICAS: Final = 2
_METRICS: Final = 9090
_USER: Final = 65532  # any user but root
_CONFIG: Final = "/etc/muster/config"
_CREDENTIALS: Final = "/etc/muster/credentials"
_READABLE: Final = 0o440  # by the group of the pod; the files belong to root


def deployment(installation: Installation, config: str, secret: str) -> list[dict[str, Any]]:
    """The Deployment, its disruption budget, and a NetworkPolicy: nothing comes in but what reads its metrics.

    config, secret: the names of the ConfigMap and the Secret whose files the agent reads.
    """
    labels = {"app.kubernetes.io/name": ACCOUNT, CLUSTER: installation.cluster}
    namespace, selector = installation.namespace, {"matchLabels": labels}
    spec = {
        "replicas": _REPLICAS,
        "selector": selector,
        "template": {"metadata": {"labels": labels}, "spec": _pod(installation, config, secret)},
    }
    budget = {"maxUnavailable": 1, "selector": selector}
    policy = {
        "podSelector": selector,
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": _METRICS, "protocol": "TCP"}]}],
    }
    return [
        manifest(installation, "apps/v1", "Deployment", ACCOUNT, namespace=namespace, spec=spec),
        manifest(installation, "policy/v1", "PodDisruptionBudget", ACCOUNT, namespace=namespace, spec=budget),
        manifest(installation, "networking.k8s.io/v1", "NetworkPolicy", ACCOUNT, namespace=namespace, spec=policy),
    ]


def _pod(installation: Installation, config: str, secret: str) -> dict[str, Any]:
    mounts = [
        {"name": "config", "mountPath": _CONFIG, "readOnly": True},
        {"name": "credentials", "mountPath": _CREDENTIALS, "readOnly": True},
    ]
    container = {
        "name": "agent",
        "image": installation.image,
        "command": ["python3", "-m", "muster_cluster_agent"],
        "env": _environment(installation),
        "ports": [{"name": "metrics", "containerPort": _METRICS}],
        # /healthz fails on a standby, which waits for the lead: it would be killed. There is no readiness probe: a
        # rollout would wait for a pod that waits for the lead of the pod which it replaces.
        "livenessProbe": {"httpGet": {"path": "/metrics", "port": "metrics"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "250m", "memory": "300Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    return {
        "serviceAccountName": ACCOUNT,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": config}},
            {"name": "credentials", "secret": {"secretName": secret, "defaultMode": _READABLE}},
        ],
    }


def _environment(installation: Installation) -> list[dict[str, Any]]:
    bus = installation.bus
    own_name = {"name": "MUSTER_INSTANCE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    settings = {
        "MUSTER_CLUSTER_FILE": f"{_CONFIG}/cluster.yaml",
        "MUSTER_TRUST_FILE": f"{_CONFIG}/trust.json",
        "MUSTER_APPLICATION_FILE": f"{_CREDENTIALS}/application.json",
        "MUSTER_SUBMISSION_ADDRESS": installation.submission,
        "MUSTER_SUBMISSION_TLS": "true" if installation.submission_tls else "",
        "MUSTER_SUBMISSION_CA_FILE": f"{_CONFIG}/submission-ca.pem" if installation.submission_ca else "",
        "MUSTER_KAFKA_BOOTSTRAP": bus.bootstrap,
        "MUSTER_KAFKA_SECURITY": bus.security,
        "MUSTER_KAFKA_USER": bus.user,
        "MUSTER_KAFKA_PASSWORD_FILE": f"{_CREDENTIALS}/kafka-password" if bus.user else "",
        "MUSTER_KAFKA_CA": f"{_CONFIG}/kafka-ca.pem" if bus.ca else "",
        "MUSTER_METRICS_LISTEN": f"0.0.0.0:{_METRICS}",
    }
    return [own_name, *({"name": name, "value": value} for name, value in settings.items() if value)]
