"""The effective spec of an assignment as what the agent runs: how replicas belong together, and what each role runs.

Used by `decode`. Raises ValueError for a kind that this agent does not know.
Holds: a variable that names a Secret is left out, since the text of its reference would be taken for the value.
"""

from __future__ import annotations

from typing import Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters.containers import SECRET, container, variables
from muster_cluster_agent.domain.budgets import Limits
from muster_cluster_agent.domain.model import Framework, Pattern, Probe, Template
from muster_kernel.quantities import parse_bytes, parse_milli_cpu

CLEANED: Final = frozenset({workload_pb2.CLEAN_POD_POLICY_ALL, workload_pb2.CLEAN_POD_POLICY_RUNNING})
_FRAMEWORKS: Final = {
    workload_pb2.FRAMEWORK_PYTORCH: Framework.PYTORCH,
    workload_pb2.FRAMEWORK_TF: Framework.TF,
    workload_pb2.FRAMEWORK_XGBOOST: Framework.XGBOOST,
    workload_pb2.FRAMEWORK_JAX: Framework.JAX,
    workload_pb2.FRAMEWORK_MPI: Framework.MPI,
    workload_pb2.FRAMEWORK_COLOSSALAI: Framework.COLOSSALAI,
}
_WITH_LAUNCHER: Final = frozenset({Framework.MPI, Framework.COLOSSALAI})


def pattern(spec: workload_pb2.WorkloadSpec) -> Pattern:
    """How the replicas belong together: a gang with a launcher is one pattern, whatever the launcher starts."""
    if spec.kind == options_pb2.KIND_INFERENCE:
        return Pattern.SERVICE
    if spec.kind == options_pb2.KIND_DISTRIBUTED:
        return Pattern.MPI if framework(spec) in _WITH_LAUNCHER else Pattern.GANG
    if spec.kind == options_pb2.KIND_TRAINING and spec.completions > 1:
        return Pattern.TRIALS
    if spec.kind in {options_pb2.KIND_TRAINING, options_pb2.KIND_WORKSPACE}:
        return Pattern.SINGLE
    raise ValueError(f"this agent does not know how to run a workload of kind {spec.kind}")


def framework(spec: workload_pb2.WorkloadSpec) -> Framework:
    """How its replicas find each other: as with PyTorch where it says nothing of it."""
    if not spec.framework:
        return Framework.PYTORCH
    if spec.framework not in _FRAMEWORKS:
        raise ValueError(f"this agent does not know how to run a gang of framework {spec.framework}")
    return _FRAMEWORKS[spec.framework]


def template(spec: workload_pb2.WorkloadSpec, *, containers: bool) -> Template:
    """What the replicas of a role run. containers: the back end makes containers of images."""
    made = container(spec) if containers else None
    if made is not None:
        ports = [port.container for port in made.ports if not port.sidecar]
    else:
        ports = [port.container for port in spec.ports if not port.deleted and port.container]
    return Template(
        command=spec.command,
        args=spec.args,
        env=tuple((name, value) for name, value in variables(spec) if not value.startswith(SECRET)),
        working_dir=spec.working_dir,
        ports=tuple(dict.fromkeys(ports)),
        probe=_probe(spec.readiness_probe) if spec.HasField("readiness_probe") else None,
        limits=Limits(
            cpu=parse_milli_cpu(spec.cpu) if spec.cpu else 0,
            cpu_limit=parse_milli_cpu(spec.cpu_limit) if spec.cpu_limit else 0,
            memory=parse_bytes(spec.memory) if spec.memory else 0,
            memory_limit=parse_bytes(spec.memory_limit) if spec.memory_limit else 0,
        ),
        container=made,
    )


def _probe(asked: workload_pb2.ReadinessProbe) -> Probe:
    return Probe(
        path=asked.path,
        port=asked.port,
        delay=float(asked.initial_delay_seconds),
        period=float(asked.period_seconds),
        timeout=float(asked.timeout_seconds),
        successes=asked.success_threshold or 1,
        failures=asked.failure_threshold or 3,
        tls=asked.scheme == workload_pb2.PROBE_SCHEME_HTTPS,
        host=asked.host,
    )
