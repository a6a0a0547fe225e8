"""A workspace that asks for Jupyter, with the usual image, command and port where it names none."""

from __future__ import annotations

from typing import Final

from muster.workload.v1 import workload_pb2

PORT: Final = 8888
COMMAND: Final = f"jupyter lab --ip=0.0.0.0 --port={PORT} --no-browser --allow-root"
"""Jupyter takes its token from JUPYTER_TOKEN, and makes one up, which its log shows, where there is none."""


def with_notebook_defaults(spec: workload_pb2.WorkloadSpec, image: str) -> workload_pb2.WorkloadSpec:
    """Return the spec with image, command and port for Jupyter where it sets none.

    image: the cluster's image for notebooks; empty: the cluster has none.
    """
    if not spec.jupyter or not image:
        return spec
    made = workload_pb2.WorkloadSpec()
    made.CopyFrom(spec)
    if not made.image:
        made.image = image
    if not made.command and not made.args:
        made.command = COMMAND
    if not any(port.container and not port.deleted for port in made.ports):
        made.ports.add(label="jupyter", container=PORT)
    return made
