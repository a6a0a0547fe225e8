"""Issues in the words of YAML."""

from __future__ import annotations

import pytest

from muster_policy_engine.judging.rules import Objection
from muster_policy_engine.yaml_text import yaml_text
from tests.support.policies_v1 import policy


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("compute.gpuPortionRequest", "gpu"),
        ("compute.gpuDevicesRequest", "gpuDevices"),
        ("environmentVariables", "environment"),
        ("ports.web.container", "ports.web.container"),
        ("storage.nfs.a.b.mountPath", "nfs.a.b.targetPath"),
        ("storage.pvc.data.claimInfo.size", "pvcs.data.size"),
        ("storage.hostPath.a.nfsServer", "volumes.a.nfsServer"),
        ("storage.git.a", "gitSync.a"),
        ("probes.readiness.handler.httpGet.port", "readinessProbe.port"),
        ("masterSpec.compute.cpuCoreLimit", "masterSpec.cpuLimit"),
        ("masterSpec.storage.s3.x.url", "masterSpec.s3.x.url"),
        ("security.uidGidSource", "uidGidSource"),
        ("spec", "spec"),
    ],
)
def test_names(path: str, name: str) -> None:
    objection = Objection(path, "max", "5", "at most 4", "value must be no greater than 4")
    assert yaml_text(objection) == f"{name}: must be no greater than 4"


def test_a_value_of_several_fields_has_the_name_by_which_the_policy_rules_it() -> None:
    house = policy(
        "runAsUser: {rules: {required: true}}", "Distributed", siblings="masterSpec: {gpu: {rules: {max: 1}}}"
    )
    for path, name in (
        ("security.uidGidSource", "runAsUser"),
        ("masterSpec.compute.gpuPortionRequest", "masterSpec.gpu"),
    ):
        assert yaml_text(Objection(path, "required", "", "", "a value is required", policy=house)) == (
            f"{name}: a value is required"
        )
