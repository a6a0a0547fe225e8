"""Thousands of nodes of a real API server, played by kwok: their leases, and pods that run until they are deleted.

kwok's own stages would empty the finalizers of a pod that is deleted. These do what a kubelet does: the containers end
first, the status says how, and the object goes when nothing holds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.fake_kubelet import node_info, now
from tests.support.kubernetes import PROGRAMS, TOKEN, Cluster, running, session_with

MISSING: Final = "kwok is not built here: `make testbed` builds it"
_AT_ONCE: Final = 32
_ENDED: Final = """\
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: x
        ready: false
        restartCount: 0
        state:
          terminated:
            exitCode: {{ $code }}
            reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
            containerID: kwok://{{ $uid }}
            startedAt: {{ $now | Quote }}
            finishedAt: {{ $now | Quote }}
      {{ end }}
"""
"""Every container has ended with $code, at $now."""
_OPTIONS: Final = f"""\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {{podPlayStageParallelism: {_AT_ONCE}}}
---
"""
"""Kubelets work side by side; by itself kwok plays four of them at a time."""
_STAGES: Final = (
    """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.podIP, operator: DoesNotExist}
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $uid := .metadata.uid }}
      phase: Running
      startTime: {{ $now | Quote }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
      conditions:
      - {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: x
        containerID: kwok://{{ $uid }}
        ready: true
        restartCount: 0
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ends}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: .status.phase, operator: NotIn, values: [Succeeded, Failed]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $uid := .metadata.uid }}
      {{ $code := "143" }}
      phase: Failed
"""
    + _ENDED
    + """\
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-goes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: .metadata.finalizers, operator: DoesNotExist}
    - {key: '.metadata.deletionGracePeriodSeconds | tostring', operator: NotIn, values: ["0"]}
    - {key: .status.phase, operator: In, values: [Succeeded, Failed]}
  next:
    delete: true
"""
)


SECONDS: Final = "chaos.example.com/seconds"
"""Annotation of a pod: how long its containers run, such as `2.50s`; with the stage COMPLETES."""
CODE: Final = "chaos.example.com/code"
"""Annotation of a pod: the code with which its containers end."""
COMPLETES: Final = (
    """
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-completes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.annotations["chaos.example.com/seconds"]', operator: Exists}
  delay:
    durationFrom: {expressionFrom: '.metadata.annotations["chaos.example.com/seconds"]'}
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $uid := .metadata.uid }}
      {{ $code := index .metadata.annotations "chaos.example.com/code" }}
      phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
"""
    + _ENDED
)
"""A stage in which a pod ends as its annotations say."""


def built() -> bool:
    """Whether the program is there."""
    return (PROGRAMS / "kwok").exists()


@contextmanager
def nodes(
    found: Cluster, folder: Path, names: Sequence[str], gpus: int, more: str = "", *, lease_seconds: int = 40
) -> Iterator[None]:
    """Nodes that are Ready, each with that many GPUs, until the block ends.

    folder: for kwok's files. more: stages in addition to those of every pod. lease_seconds: how long a node's lease
    lasts, a quarter of which lies between two renewals; a kubelet's lasts 40.
    """
    config, stages = folder / "kwok.kubeconfig", folder / "stages.yaml"
    config.write_text(found.kubeconfig())
    stages.write_text(_OPTIONS + _STAGES + more)
    asyncio.run(_add(found, names, gpus))
    words: dict[str, object] = {"kubeconfig": config, "config": stages, "manage-all-nodes": "true"}
    words["node-lease-duration-seconds"] = lease_seconds
    words["v"] = "WARN"  # by itself it writes a line for each change of each pod
    # It stands for machines that are not here: less of this one's time for its garbage collector.
    command = ["env", "GOGC=400", str(PROGRAMS / "kwok"), *(f"--{name}={value}" for name, value in words.items())]
    with running(command, folder / "kwok.log"):
        yield


async def _add(found: Cluster, names: Sequence[str], gpus: int) -> None:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": now(), "lastHeartbeatTime": now()}]
    amounts = {"cpu": "256", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": str(gpus)}
    limit = asyncio.Semaphore(_AT_ONCE)
    async with session_with(TOKEN) as session:

        async def one(name: str) -> None:
            labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
            status = {"allocatable": amounts, "capacity": amounts, "conditions": conditions}
            body = {
                "metadata": {"name": name, "labels": labels},
                "status": {**status, "nodeInfo": node_info(f"{name}-boot")},
            }
            async with limit, session.post(f"{found.url}/api/v1/nodes", json=body) as answer:
                answer.raise_for_status()

        await asyncio.gather(*map(one, names))
