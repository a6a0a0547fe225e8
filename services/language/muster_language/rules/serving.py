"""What an inference service needs: a port, and bounds between which its number of replicas can move.

Called for the effective spec of a service, after the defaults of scaling have been worked out (`derived`).
Holds: the metric is asked for only where there is something to decide: between 0 and 1 replica the traffic decides.
"""

from __future__ import annotations

from muster_language.rules.issues import Found, missing, number_of, words, wrong
from muster_language.spec import WorkloadSpec


def service(spec: WorkloadSpec) -> Found:
    """A service without a port could not be asked anything."""
    if not any(not port.deleted for port in spec.ports):
        said = "an inference service needs a port"
        yield missing("ports", said, "ports: {items: {http: {value: {container: 8000}}}}")


def scaling(spec: WorkloadSpec) -> Found:
    """Bounds in order, a metric where it has to choose, and a target for the metric."""
    low = spec.min_scale if spec.HasField("min_scale") else 1
    high = spec.max_scale if spec.HasField("max_scale") else max(low, 1)
    if low > high:
        said = f"minScale {low} is above maxScale {high}"
        yield wrong("autoscaling.minReplicas", low, f"at most {high}", said)
    elif low < high and not spec.metric and (low, high) != (0, 1):
        said = f"scaling between {low} and {high} replicas needs a metric"
        yield missing("autoscaling.metric", said, words("metric"))
    if spec.metric and not spec.HasField("target"):
        yield missing("autoscaling.metricThreshold", "a metric needs a target", "a number above 0")
    if low == 0 and spec.metric == number_of("metric", "latency"):
        allowed = "concurrency or throughput, or a minScale of at least 1"
        said = "a service scaled by latency cannot go down to no replica"
        yield wrong("autoscaling.metric", "latency", allowed, said)
    if low and spec.scale_to_zero_retention_seconds:
        path, given = "autoscaling.scaleToZeroRetentionSeconds", spec.scale_to_zero_retention_seconds
        yield wrong(path, given, "minScale 0, or leave it out", f"the service never goes below {low} replicas")
