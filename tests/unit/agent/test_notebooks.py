"""A workspace that asks for Jupyter gets what it does not say itself, and nothing else changes."""

from __future__ import annotations

from typing import Any

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters import specs
from muster_cluster_agent.adapters.notebooks import COMMAND, PORT, with_notebook_defaults

IMAGE = "team/notebook:7"


def workspace(**fields: Any) -> workload_pb2.WorkloadSpec:
    return workload_pb2.WorkloadSpec(kind=options_pb2.KIND_WORKSPACE, **fields)


def test_image_command_and_port_are_the_usual_ones() -> None:
    asked = workspace(jupyter=True, notebook_token="muster-sealed:1:1")
    made = specs.template(with_notebook_defaults(asked, IMAGE), containers=True)
    assert made.container is not None
    assert (made.container.image, made.command, made.ports) == (IMAGE, COMMAND, (PORT,))
    assert [port.container for port in made.container.ports] == [PORT]
    assert ("JUPYTER_TOKEN", "muster-sealed:1:1") in made.env
    assert not asked.image  # the spec that came is left as it was


def test_what_it_says_itself_holds() -> None:
    asked = workspace(jupyter=True, image="own", args="lab --port=9999")
    asked.ports.add(label="own", container=9999)
    assert with_notebook_defaults(asked, IMAGE) == asked


def test_a_workspace_without_jupyter_and_a_cluster_without_an_image_change_nothing() -> None:
    for asked, image in ((workspace(image="x"), IMAGE), (workspace(jupyter=True), "")):
        assert with_notebook_defaults(asked, image) is asked
