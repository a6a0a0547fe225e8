"""JSON for programs: GPUs are GPUs, spans say their unit, and no field that counts 1/7,000 is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

from google.protobuf.duration_pb2 import Duration

from muster.api.v1 import triggers_pb2
from muster.fleet.v1 import fleet_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.render.plain import GPU_FIELDS, plain

PROTOS = Path(__file__).parents[3] / "protos"


def test_gpus_are_written_as_people_write_them() -> None:
    quota = plain(tenancy_pb2.PoolQuota(node_pool="default", gpu_deserved=28_000, gpu_limit=3_500))
    assert (quota["gpuDeserved"], quota["gpuLimit"]) == (4, 0.5)
    account = plain(fleet_pb2.Account(allocated=fleet_pb2.Amount(gpu=1000, cpu_milli=500)))
    assert account["allocated"] == {"gpu": 0.142857, "cpuMilli": 500, "memoryBytes": 0}


def test_a_span_says_that_it_is_in_seconds() -> None:
    trigger = plain(triggers_pb2.Trigger(window=Duration(seconds=90)))
    assert trigger["windowSeconds"] == 90
    assert "window" not in trigger


def test_every_field_that_counts_parts_of_a_gpu_is_known() -> None:
    told = set()
    for path in PROTOS.rglob("*.proto"):
        text = path.read_text()
        told |= set(re.findall(r"// [^\n]*1/7,000[^\n]*\n\s+(?:optional )?uint64 (\w+) =", text))
        for message in re.findall(
            r"// [^\n]*1/7,000[^\n]*\nmessage \w+ \{(.*?)^\}", text, flags=re.DOTALL | re.MULTILINE
        ):
            told |= set(re.findall(r"uint64 (\w+) =", message))
    assert told
    assert told == GPU_FIELDS
