"""When two specs say the same: whatever units they are written in, and not what a default would make of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from muster.workload.v1 import workload_pb2 as wl
from muster_language import WorkloadSpec, canonical, changed_fields, read
from tests.support.specs import specs


def test_units_make_no_difference() -> None:
    before = WorkloadSpec(cpu="1", memory="4Gi", gpu_memory_request="1G", master_spec=WorkloadSpec(cpu="0.5"))
    before.pvcs.add(label="p", path="/p", size="1Gi")
    after = WorkloadSpec(cpu="1000m", memory="4096Mi", gpu_memory_request="1000M", master_spec=WorkloadSpec(cpu="500m"))
    after.pvcs.add(label="p", path="/p", size="1024Mi")
    assert changed_fields(before, after) == []
    assert canonical(before) == canonical(after)


def test_what_differs_is_named_in_the_catalogues_order() -> None:
    before = WorkloadSpec(name="a", image="x", cpu="1", usage=wl.USAGE_SUBMIT)
    before.environment.add(label="A", value="1")
    after = WorkloadSpec(name="b", image="y", cpu="2", backoff_limit=6)
    after.environment.add(label="A", value="2")
    assert changed_fields(before, after) == ["image", "environment", "cpu", "backoff_limit"]


SEED = (Path(__file__).parents[2] / "data" / "seeds" / "004-colossal-ai-job.yaml").read_text()


@pytest.mark.parametrize(
    ("written", "instead", "differ"),
    [
        ("name: launcher", "name: starter", ["colossal"]),
        ("sshdPath: /usr/sbin/sshd", "sshdPath: /opt/sshd", ["colossal"]),
        ("limit: 3", "limit: 4", ["backoff_limit", "colossal"]),
        ("runMode: {}", "runMode: {pause: {enabled: true}}", ["active"]),
        ("runMode: {}", "runMode: {}", []),
    ],
)
def test_a_job_of_another_form_is_compared_as_it_was_written(written: str, instead: str, differ: list[str]) -> None:
    before, after = read(SEED)[0], read(SEED.replace(written, instead, 1))[0]
    assert (before.violations, after.violations) == ([], [])
    assert changed_fields(before.spec, after.spec) == differ


def test_a_bad_quantity_is_left_to_whoever_checks() -> None:
    assert canonical(WorkloadSpec(memory="much")).memory == "much"


@given(specs())
def test_nothing_differs_from_itself(spec: WorkloadSpec) -> None:
    once = canonical(spec)
    assert canonical(once) == once
    assert changed_fields(spec, once) == []
