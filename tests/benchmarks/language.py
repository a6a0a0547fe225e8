"""How fast the language and the API are: `uv run python tests/benchmarks/language.py --json`.

The language on one core, a TrainingWorkload of 25 fields: yaml_per_s (text to checked spec with lines and columns),
validate_per_s (every rule, of kinds and across fields), merge_per_s (three layers of 10,
10 and 25 fields with 12 items, one of them deleted).

Submission as one process with a durable PostgreSQL, every caller with a token, every change in the audit:
bulk_submit_per_s (calls of 500, three at once), single_submit_per_s (32 connections). Then, at 1,000,000 workloads,
while 500 writes a second run, half of them submissions and half moves of phases: 32 readers, three questions a second
each, over HTTP: list_p99_ms, that of the worst of twelve pairs of filter and sort (list_worst_pair; all of them in
list_pairs_ms), and the slowest answer of several to list_offset_10k_ms, list_any_offset_ms and count_ms.

Progress goes to standard error; the last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import grpc
import httpx

from muster.api.v1 import tenancy_pb2, tenancy_pb2_grpc, workloads_pb2, workloads_pb2_grpc
from muster.workload.v1 import workload_pb2 as wl
from muster_language import check_effective, overlay, read
from tests.support import list_load
from tests.support.figures import spread
from tests.support.front_door import FrontDoor, front_door

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = """\
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {name: train, namespace: runai-bench}
spec:
  name: {value: train}
  image: {value: registry.example.com/team/train:1.2}
  imagePullPolicy: {value: IfNotPresent}
  command: {value: python train.py}
  arguments: {value: --epochs 10 --seed 7}
  workingDir: {value: /workspace}
  cpu: {value: "4"}
  cpuLimit: {value: "8"}
  memory: {value: 16Gi}
  memoryLimit: {value: 32Gi}
  gpu: {value: "0.5"}
  largeShm: {value: true}
  nodePools: {value: default}
  nodeType: {value: a100}
  priorityClass: {value: train}
  backoffLimit: {value: 3}
  runAsUid: {value: 1000}
  runAsGid: {value: 1000}
  terminateAfterPreemption: {value: false}
  autoDeletionTimeAfterCompletionSeconds: {value: 86400}
  environment:
    items:
      SEED: {value: "7"}
      MODE: {value: fast}
  labels:
    items:
      team: {value: vision}
      stage: {value: research}
  annotations:
    items:
      owner: {value: ada}
  ports:
    items:
      board: {value: {container: 6006, serviceType: NodePort}}
  volumes:
    items:
      data: {value: {path: /data, mountPath: /data, readOnly: true}}
"""
LANGUAGE_SECONDS: Final = 4.0
BULK: Final = 500


def main() -> int:
    """Runs the parts and prints the object."""
    given = _arguments()
    result: dict[str, object] = {"cores": os.cpu_count()}
    if "language" in given.parts:
        result |= language()
    if "submit" in given.parts:
        with front_door() as door:
            result |= asyncio.run(submitting(door, given.seconds))
    if "lists" in given.parts:
        with front_door() as door:
            result |= asyncio.run(listing(door, given.rows, given.seconds))
    if not given.json:
        print("\n".join(f"{name:24} {value}" for name, value in result.items()))
    print(json.dumps(result))
    return 0


def language() -> dict[str, object]:
    """The three figures of the language, each in runs of which the middle one counts."""
    (document,) = read(TEXT)
    if document.violations:
        raise RuntimeError(f"the document of the benchmark is wrong: {document.violations}")
    spec = document.spec
    layers = _layers(spec)
    figures = {
        "yaml_per_s": _rate(lambda: read(TEXT)),
        "validate_per_s": _rate(lambda: check_effective(spec)),
        "merge_per_s": _rate(lambda: overlay(*layers)),
    }
    _say(f"language: {figures}")
    return {name: round(value) for name, value in figures.items()}


def _rate(work: Callable[[], object]) -> float:
    """Calls in a second of one core: the middle one of five runs."""
    rates = []
    for _ in range(5):
        began, count = time.process_time(), 0
        while time.process_time() - began < LANGUAGE_SECONDS / 5:
            for _ in range(20):
                work()
            count += 20
        rates.append(count / (time.process_time() - began))
    return sorted(rates)[2]


def _layers(own: wl.WorkloadSpec) -> tuple[wl.WorkloadSpec, ...]:
    """10, 10 and 25 fields; five, four and three items, one of which deletes one of the layer below."""
    defaults = wl.WorkloadSpec(
        cpu="1", memory="1Gi", node_type="any", priority_class="train", backoff_limit=6, large_shm=False, run_as_uid=1
    )
    base = wl.WorkloadSpec(
        cpu="2", memory="2Gi", image="base", command="run", working_dir="/", run_as_gid=1, cpu_limit="3", node_type="b"
    )
    for number in range(5):
        defaults.environment.add(label=f"D{number}", value="1")
    for number in range(4):
        base.environment.add(label=f"B{number}", value="1")
    defaults.labels.add(label="l", value="1")
    base.annotations.add(label="a", value="1")
    mine = wl.WorkloadSpec()
    mine.CopyFrom(own)
    del mine.environment[:]
    for number in range(2):
        mine.environment.add(label=f"M{number}", value="1")
    mine.environment.add(label="D0", deleted=True)
    return defaults, base, mine


async def submitting(door: FrontDoor, seconds: float) -> dict[str, object]:
    """Submissions a second, in bulk and by single calls."""
    spec = read(TEXT)[0].spec
    async with grpc.aio.insecure_channel(door.grpc) as channel:
        await _projects(door, channel, ["bench"])
        await _bulk(door, channel, spec, 1.0, "warm")
        bulk = await _bulk(door, channel, spec, seconds, "bulk")
    await _single(door, spec, 1.0, "warming")
    single = await _single(door, spec, seconds, "single")
    _say(f"submissions a second: bulk {bulk:.0f}, single {single:.0f}")
    return {"bulk_submit_per_s": round(bulk), "single_submit_per_s": round(single)}


async def _bulk(door: FrontDoor, channel: Any, spec: wl.WorkloadSpec, seconds: float, prefix: str) -> float:
    stub = workloads_pb2_grpc.WorkloadsServiceStub(channel)
    began, done, turn = time.perf_counter(), 0, 0

    async def caller() -> None:
        nonlocal done, turn
        while time.perf_counter() - began < seconds:
            turn += 1
            drafts = [_draft(spec, f"{prefix}-{turn}-{number}") for number in range(BULK)]
            asked = workloads_pb2.SubmitWorkloadsRequest(drafts=drafts, idempotency_key=str(uuid.uuid4()))
            answer = await stub.SubmitWorkloads(asked, metadata=door.metadata)
            if refused := [one.message for one in answer.outcomes if one.code]:
                raise RuntimeError(f"{len(refused)} were refused, the first: {refused[0]}")
            done += BULK

    await asyncio.gather(caller(), caller(), caller())
    return done / (time.perf_counter() - began)


async def _single(door: FrontDoor, spec: wl.WorkloadSpec, seconds: float, prefix: str) -> float:
    own = (("grpc.use_local_subchannel_pool", 1),)  # a connection for each channel
    channels = [grpc.aio.insecure_channel(door.grpc, options=own) for _ in range(list_load.READERS)]
    began, done = time.perf_counter(), 0

    async def caller(number: int) -> None:
        nonlocal done
        stub, turn = workloads_pb2_grpc.WorkloadsServiceStub(channels[number]), 0
        while time.perf_counter() - began < seconds:
            turn += 1
            draft = _draft(spec, f"{prefix}-{number}-{turn}")
            asked = workloads_pb2.SubmitWorkloadRequest(draft=draft, idempotency_key=str(uuid.uuid4()))
            await stub.SubmitWorkload(asked, metadata=door.metadata)
            done += 1

    await asyncio.gather(*(caller(number) for number in range(len(channels))))
    took = time.perf_counter() - began
    for channel in channels:
        await channel.close()
    return done / took


def _draft(spec: wl.WorkloadSpec, name: str) -> workloads_pb2.WorkloadDraft:
    draft = workloads_pb2.WorkloadDraft(project="bench")
    draft.spec.CopyFrom(spec)
    draft.spec.name = name
    return draft


async def listing(door: FrontDoor, rows: int, seconds: float) -> dict[str, object]:
    """Lists, offsets and counts at `rows` workloads, while 500 writes a second run."""
    names = [list_load.TINY, list_load.BIG, *list_load.SCOPE, *list_load.TEAMS]
    async with grpc.aio.insecure_channel(door.grpc) as channel:
        await _projects(door, channel, names)
    _say(f"{rows} workloads are made")
    began = time.monotonic()
    await list_load.fill(door.database, read(TEXT)[0].spec, rows)
    _say(f"they were, in {time.monotonic() - began:.0f} s")
    async with httpx.AsyncClient(base_url=door.rest, timeout=60, headers=_bearer(door.token)) as http:
        projects = await _project_ids(http)
        tokens = {"admin": door.token, "scoped": await _scoped(http, [projects[name] for name in list_load.SCOPE])}
        load = {"rest": door.rest, "questions": list_load.pairs(projects), "tokens": tokens}
        await asyncio.to_thread(_process, "readers", load | {"seconds": 4})  # connections and plans are made
        told = {"grpc_address": door.grpc, "database": door.database, "token": door.token}
        with _beside("writer", told | {"seconds": seconds * 2}) as written:
            took = await asyncio.to_thread(_process, "readers", load | {"seconds": seconds})
            slow = await _slow(http, rows)
            await asyncio.to_thread(written.wait)
        _say(f"writes a second meanwhile: {json.loads(written.stdout.read() if written.stdout else '0'):.0f}")
    pairs = {name: spread(each)["p99"] for name, each in took.items()}
    for name, each in took.items():
        _say(f"{name:36} {spread(each)}")
    worst = max(pairs, key=lambda name: pairs[name])
    return {"list_p99_ms": pairs[worst], "list_worst_pair": worst, "list_pairs_ms": pairs, **slow}


async def _slow(http: httpx.AsyncClient, rows: int) -> dict[str, float]:
    """The slowest of several answers to deep offsets and counts."""
    by_name, big = "sortBy=name&sortOrder=asc", f"filterBy=projectName=={list_load.BIG}"
    deep = [int(rows * share) for share in (0.05, 0.5, 0.9)]
    return {
        "list_offset_10k_ms": await _slowest(
            http, [f"?offset=10000&{more}" for more in ("", by_name, f"{big}&{by_name}", "sortBy=completedAt")]
        ),
        "list_any_offset_ms": await _slowest(http, [f"?offset={at}&{more}" for at in deep for more in ("", by_name)]),
        "count_ms": await _slowest(http, [f"/count?{more}" for more in ("", big, "filterBy=phase==Completed")]),
    }


async def _slowest(http: httpx.AsyncClient, questions: Sequence[str]) -> float:
    took = []
    for question in questions:
        for _ in range(3):
            began = time.perf_counter()
            answer = await http.get(f"/api/v1/workloads{question}")
            answer.raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
        _say(f"{question:48} {[round(one) for one in took[-3:]]} ms")
    return round(max(took), 1)


async def _projects(door: FrontDoor, channel: Any, names: Sequence[str]) -> None:
    stub = tenancy_pb2_grpc.TenancyServiceStub(channel)
    for name in names:
        asked = tenancy_pb2.CreateProjectRequest(name=name, idempotency_key=str(uuid.uuid4()))
        await stub.CreateProject(asked, metadata=door.metadata)


async def _project_ids(http: httpx.AsyncClient) -> dict[str, str]:
    answer = await http.get("/api/v1/org-unit/projects", params={"limit": 500})
    answer.raise_for_status()
    return {one["name"]: one["id"] for one in answer.json()["projects"]}


async def _scoped(http: httpx.AsyncClient, projects: Sequence[str]) -> str:
    """The token of an application that may look at these projects and nothing else."""
    made = (await http.post("/api/v1/apps", json={"name": "scoped"})).raise_for_status().json()
    for project in projects:
        rule = {"subjectId": made["id"], "subjectType": "app", "roleId": 1, "scopeId": project, "scopeType": "project"}
        (await http.post("/api/v1/authorization/access-rules", json=rule)).raise_for_status()
    asked = {"grantType": "app_token", "appID": made["id"], "appSecret": made["secret"]}
    return str((await http.post("/api/v1/token", json=asked)).raise_for_status().json()["accessToken"])


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _process(part: str, given: Mapping[str, Any]) -> Any:
    """A part of the load in a process of its own; what it found."""
    command = [sys.executable, "-m", "tests.support.list_load", part]
    done = subprocess.run(command, input=json.dumps(given), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout)


@contextmanager
def _beside(part: str, given: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A part of the load that runs meanwhile."""
    command = [sys.executable, "-m", "tests.support.list_load", part]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        if process.stdin:
            process.stdin.write(json.dumps(given))
            process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--rows", type=int, default=list_load.MILLION, help="workloads of the lists")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measured part")
    every = ["language", "submit", "lists"]
    parser.add_argument("--parts", nargs="+", choices=every, default=every)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
