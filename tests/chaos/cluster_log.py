"""Reads the history of a cluster's pods from its etcd, and from its API server's audit log.

Called by `on_kubernetes.py`. Holds: the API server stores JSON and compacts nothing (`options`), so that etcd still
has every version; the audit log is written before the call is answered.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.chaos.cluster_history import Call, Version

_PODS: Final = "/registry/pods/"
_AFTER: Final = "/registry/pods0"  # the first key behind them
_LAST: Final = "/registry/pods0-read-to-here"
_END: Final = "/registry/pods1"
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "None"},
    ],
}


def options(folder: Path) -> dict[str, object]:
    """What the API server is started with, so that its history can be read."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_POLICY))
    return {
        "storage-media-type": "application/json",
        "etcd-compaction-interval": "0",
        "audit-policy-file": policy,
        "audit-log-path": folder / "audit.log",
        "audit-log-mode": "blocking",
    }


def versions(etcd: httpx.Client) -> list[Version]:
    """Every version of every pod, in their order."""
    put = etcd.post("/v3/kv/put", json={"key": _encoded(_LAST), "value": _encoded("x")})
    last = int(put.raise_for_status().json()["header"]["revision"])
    asked = {"key": _encoded(_PODS), "range_end": _encoded(_END), "start_revision": "1", "fragment": True}
    found: list[Version] = []
    with etcd.stream("POST", "/v3/watch", json={"create_request": asked}) as lines:
        for line in lines.iter_lines():
            result = json.loads(line)["result"]
            if result.get("canceled"):
                raise RuntimeError(f"etcd does not have its whole history: {result}")
            for event in result.get("events") or ():
                revision, key = int(event["kv"]["mod_revision"]), b64decode(event["kv"]["key"]).decode()
                if revision == last:
                    return found
                if key < _AFTER:
                    found.append(Version(revision, key.removeprefix(_PODS), _value(event)))
    raise RuntimeError("the watch of etcd ended before its end")


def _value(event: dict[str, Any]) -> dict[str, Any] | None:
    if event.get("type") == "DELETE":
        return None
    value: dict[str, Any] = json.loads(b64decode(event["kv"]["value"]))
    return value


def calls(folder: Path) -> list[Call]:
    """The calls that asked for a new pod. A last line that was cut off by a kill is left out."""
    found: dict[str, Call] = {}
    for path in sorted(folder.glob("audit*.log")):
        for event in _events(path.read_text(errors="replace").splitlines()):
            about = event.get("objectRef") or {}
            if event["verb"] != "create" or about.get("resource") != "pods" or about.get("subresource"):
                continue
            code = int((event.get("responseStatus") or {}).get("code", 0))
            before = found.get(event["auditID"])
            name = about.get("name") or (before.name if before else "")
            found[event["auditID"]] = Call(name, code or (before.code if before else 0))
    return [*found.values()]


def _events(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
