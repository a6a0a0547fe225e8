"""The documents that a chaos run submits: small finite workloads of every shape, in the language that users write.

Called by the driver. Pure. Holds: each ends by itself within seconds, except inference, which the driver deletes. On
Kubernetes nothing runs in a pod: annotations say when its container ends, and how.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.kwok import CODE, SECONDS

if TYPE_CHECKING:
    from tests.chaos.plan import Arrival

PROJECT: Final = "chaos"
SERVER: Final = Path(__file__).parent / "server.py"
_PYTHON: Final = f"{sys.executable} -I -S"


def document(arrival: Arrival) -> str:
    """The YAML document of an arrival."""
    match arrival.shape:
        case "gang" | "mpi":
            return _distributed(arrival)
        case "inference":
            return _inference(arrival)
        case _:
            return _training(arrival)


def document_on_kubernetes(arrival: Arrival) -> str:
    """The same where the replicas are pods."""
    if arrival.shape == "inference":
        return document(arrival)
    code = 3 if arrival.shape == "failing" else 0
    said = {SECONDS: f"{arrival.seconds:.2f}s", CODE: str(code)}
    items = ", ".join(f"'{name}': {{value: '{value}'}}" for name, value in said.items())
    return f"{document(arrival)}  annotations: {{items: {{{items}}}}}\n"


def _sleep(seconds: float, code: int = 0) -> str:
    return f'{_PYTHON} -c "import sys, time; time.sleep({seconds:.2f}); sys.exit({code})"'


def _head(kind: str, arrival: Arrival) -> str:
    return (
        f"apiVersion: run.ai/v2alpha1\nkind: {kind}\n"
        f"metadata: {{name: {arrival.name}, namespace: runai-{PROJECT}}}\nspec:\n"
        f"  name: {{value: {arrival.name}}}\n  image: {{value: none}}\n"
    )


def _training(arrival: Arrival) -> str:
    failing = arrival.shape == "failing"
    command = _sleep(arrival.seconds, code=3 if failing else 0)
    return (
        _head("TrainingWorkload", arrival)
        + f"  gpu: {{value: '{arrival.gpu}'}}\n  command: {{value: '{command}'}}\n"
        + ("  backoffLimit: {value: 0}\n" if failing else "")
    )


def _distributed(arrival: Arrival) -> str:
    """MPI runs mpirun over its workers; a gang is PyTorch's shape with a plain command, which costs no torch."""
    framework = "MPIJob" if arrival.shape == "mpi" else "PyTorchJob"
    return (
        _head("DistributedWorkload", arrival)
        + f"  jobType: {framework}\n  workers: {{value: {arrival.workers}}}\n"
        + f"  gpu: {{value: '{arrival.gpu}'}}\n  command: {{value: '{_sleep(arrival.seconds)}'}}\n"
    )


def _inference(arrival: Arrival) -> str:
    return (
        _head("InferenceWorkload", arrival)
        + f"  gpu: {{value: '{arrival.gpu}'}}\n  minScale: {{value: {arrival.workers}}}\n"
        + f"  maxScale: {{value: {arrival.workers}}}\n"
        + "  ports: {items: {http: {value: {container: 8080}}}}\n"
        + f"  command: {{value: '{_PYTHON} {SERVER}'}}\n"
    )
