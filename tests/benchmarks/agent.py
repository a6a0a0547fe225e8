"""How fast the agent works on a Kubernetes cluster: `uv run python tests/benchmarks/agent.py --json`.

A real API server with its etcd and kwok's nodes, a real Kafka, one agent process. The cluster has no scheduler: this
program binds the pods to the nodes to which the agent has pinned them, outside the measured time. `make testbed` builds
what it needs. The parts, in this order:

- calls: calls of the API server for each replica, from its assignment until nothing of it is left: of replicas that end
  by themselves, and of those that are stopped.
- ratio: batches of pods, alternately by the agent (from the first record on Kafka to the last pod) and by a bare loop,
  which posts the roots, what gangs share, and the pods of the same workloads, made beforehand, over a client and
  connections like the agent's. Each part waits until the machine does nothing. The sizes of workloads are drawn by
  chance: seven of ten are single replicas, the others gangs of 2 to 16. The API server and its store have half of the
  processors, and what calls them the others, as where an agent has a machine of its own. The median of each; under
  `single` the same where every workload is a single replica, and under `shared` where all programs share the
  processors: there the ratio says how much of their time the agent takes from the API server.
- status: with all pods of the agent running, pods end at an even pace; from the call that ends a pod to the report of
  it that was read from Kafka.
- restart: after SIGTERM and after kill -9, from the signal until the next agent process has told that it made
  the pod of a workload that was assigned after the signal. Then the pods a second with the default rate of calls.
- submit: a whole stack on the same API server, with `binder: direct`; from the client's call to the first event of the
  pod in a watch of all pods.

The last line is one JSON object; times are milliseconds where the name says so and seconds otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


from muster.fleet.v1 import fleet_pb2
from muster_chassis import heap
from muster_client import Muster
from muster_client.quotas import pool_quota
from muster_cluster_agent.adapters.kubernetes.client import MERGE_PATCH, Client
from muster_stack.embedded import EmbeddedKafka
from tests.support import figures, kubernetes, kwok
from tests.support.agent_bare import FAST, client_of
from tests.support.agent_bench import CREATED, IMAGE, Bench, bench, cluster_file
from tests.support.agent_ratio import LOAD, ratio
from tests.support.agents import workload_id
from tests.support.fake_kubelet import now
from tests.support.kubernetes_stack import kubernetes_stack, pods_made
from tests.support.waiting import eventually, until

SINGLES: Final = 200
GANGS: Final = 10
MEMBERS: Final = 20
LEASE_SECONDS: Final = 400
"""How long the lease of a node lasts. kwok renews all of them at the same moment: with those of a kubelet one batch of
three would wait for a thousand calls more than the batch that it is compared with."""
CHANGES: Final = 50  # a second
SUBMITS: Final = 5  # a second
WARM: Final = 10
IDLE_SECONDS: Final = 20.0
GONE: Final = fleet_pb2.REPLICA_STATE_GONE
SUCCEEDED: Final = fleet_pb2.REPLICA_STATE_SUCCEEDED


def main() -> int:
    """Measures the chosen parts and prints the object."""
    given = _arguments()
    if not (kubernetes.built() and kwok.built()):
        print(kubernetes.MISSING if not kubernetes.built() else kwok.MISSING, file=sys.stderr)
        return 1
    names = [f"n-{number:04}" for number in range(given.nodes)]
    heap.settle()  # as the agent does: the loops that are compared run here
    with (
        tempfile.TemporaryDirectory(prefix="muster-agent-bench-") as folder,
        EmbeddedKafka() as broker,
        kubernetes.cluster(Path(folder)) as found,
        kwok.nodes(found, Path(folder), names, gpus=16, lease_seconds=LEASE_SECONDS),
    ):
        result: dict[str, Any] = {"pods": given.pods, "nodes": given.nodes}
        if {*PARTS[:-1]} & {*given.parts}:
            result |= asyncio.run(_measure(given, found, broker.bootstrap, Path(folder), names))
        if "submit" in given.parts:
            with kubernetes_stack(Path(folder) / "submit", found, FAST) as stack:
                result |= asyncio.run(_submit(stack.server, found, given.seconds))
    print(json.dumps(result))
    return 0


async def _measure(
    given: argparse.Namespace, found: kubernetes.Cluster, bootstrap: str, folder: Path, names: Sequence[str]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    async with bench(found, bootstrap, folder, names, FAST) as at:
        await at.make({0: 1}, "runai-warm")
        if "calls" in given.parts:
            result |= await _calls(at)
        sizes: dict[int, int] = {}
        if "ratio" in given.parts:
            figures_of_ratio, sizes = await ratio(at, given.pods, given.alternations)
            memory = at.memory()
            result |= figures_of_ratio
            result |= {"rss_mib": memory["now"], "rss_highest_mib": memory["highest"]}
        if "status" in given.parts:
            result |= await _status(at, sizes or await _load(at, given.pods), given.seconds)
        if "restart" in given.parts:
            result |= await _restarts(at)
        if at.reports.refusals:
            print(f"refused: {sorted(set(at.reports.refusals))[:5]}", file=sys.stderr)
    return result


async def _load(at: Bench, pods: int) -> dict[int, int]:
    """Workloads of one replica that run."""
    sizes = dict.fromkeys(range(1, pods + 1), 1)
    await at.make(sizes, LOAD)
    await at.bind([*sizes], LOAD)
    return sizes


# ---------------------------------------------------------------------------------------------------------------- calls


async def _calls(at: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    first = 1_000_000
    # Calls that no replica causes do not count: the renewal of the Lease, and watches that begin again.
    before, began = at.calls(), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (at.calls() - before) / (time.monotonic() - began)
    for name, count, workers in (("single", SINGLES, 1), ("gang", GANGS, MEMBERS)):
        for stopped in (False, True):
            part = f"{name}_stopped" if stopped else name
            numbers = range(first, first + count)
            first += count
            began = time.monotonic()
            calls = await _life(at, numbers, f"runai-{part.replace('_', '-')}", workers, stopped=stopped)
            calls -= idle * (time.monotonic() - began)
            found[f"calls_{part}"] = round(calls / (count * workers), 2)
    return found


async def _life(at: Bench, numbers: Sequence[int], namespace: str, workers: int, *, stopped: bool) -> float:
    """The agent's calls while workloads are made, run, end by themselves or are stopped, and leave nothing."""
    before = at.calls()
    await at.write(at.assignments(numbers, namespace, workers=workers))
    await at.until_pods(namespace, len(numbers) * workers)
    await at.bind(numbers, namespace)
    if not stopped:
        ended = at.reports.counts[GONE] + len(numbers) * workers
        async with client_of(at) as client:
            pods = at.cluster.http.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
            await asyncio.gather(*(_end(client, pod) for pod in pods))
        await until(lambda: at.reports.counts[GONE] >= ended)
    await at.write(at.releases(numbers))
    await at.until_pods(namespace, 0)
    # The ConfigMap of the programs that start gangs belongs to the namespace, and stays.
    await eventually(lambda: asyncio.to_thread(at.cluster.count, "configmaps", namespace), lambda left: left <= 1)
    return at.calls() - before


async def _end(client: Client, pod: dict[str, Any]) -> None:
    """The container of a pod ends well."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
    status = _ended(pod["spec"]["containers"][0])
    await client.call("PATCH", path, body={"status": status}, content=MERGE_PATCH)


# --------------------------------------------------------------------------------------------------------------- status


async def _status(at: Bench, sizes: Mapping[int, int], seconds: float) -> dict[str, Any]:
    """Ends pods of single replicas of the load at an even pace, in an order drawn by chance."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"  status: seed {seed}", file=sys.stderr, flush=True)
    singles = [number for number, size in sizes.items() if size == 1]
    chosen = random.Random(seed).sample(singles, min(int(CHANGES * seconds), len(singles)))
    listed = at.cluster.http.get(f"/api/v1/namespaces/{LOAD}/pods", params={"resourceVersion": "0"}).json()["items"]
    by_workload = {item["metadata"]["labels"]["muster.io/workload"]: item for item in listed}
    asked: dict[str, float] = {}
    async with client_of(at) as client:
        began = time.monotonic()

        async def one(turn: int, workload: str) -> None:
            await asyncio.sleep(max(0.0, began + turn / CHANGES - time.monotonic()))
            asked[workload] = time.monotonic()
            await _end(client, by_workload[workload])

        await asyncio.gather(*(one(turn, workload_id(number)) for turn, number in enumerate(chosen)))
        await at.reports.until([*asked], SUCCEEDED)
    waits = [(at.reports.at[workload, SUCCEEDED] - sent) * 1e3 for workload, sent in asked.items()]
    spread = figures.spread(waits)
    return {"status_p99_ms": spread["p99"], "status_ms": spread}


def _ended(container: dict[str, Any]) -> dict[str, Any]:
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now(), "containerID": "kwok://x"}
    one = {"name": container["name"], "image": container["image"], "imageID": "x", "restartCount": 0, "ready": False}
    return {"phase": "Succeeded", "containerStatuses": [{**one, "state": {"terminated": ended}}]}


# -------------------------------------------------------------------------------------------------------------- restart


async def _restarts(at: Bench) -> dict[str, float]:
    stopped = await _restarted(at, 8_000_000, signal.SIGTERM)
    (at.agent.root / "cluster.yaml").write_text(cluster_file(None))
    killed = await _restarted(at, 8_000_001, signal.SIGKILL)
    await asyncio.sleep(5.0)  # its burst is there again
    count = 2_000
    took = await at.make(dict.fromkeys(range(9_000_000, 9_000_000 + count), 1), "runai-default")
    return {"restart_s": stopped, "restart_killed_s": killed, "default_pods_per_s": round(count / took, 1)}


async def _restarted(at: Bench, number: int, end: signal.Signals) -> float:
    """Seconds from a signal that ends the agent until the next one has told that it made the pod of a new workload."""
    process = at.agent.process
    assert process is not None
    began = time.monotonic()
    process.send_signal(end)
    await asyncio.to_thread(process.wait)
    await asyncio.to_thread(at.agent.start)
    await at.write(at.assignments([number], "runai-restart"))
    await at.reports.until([workload_id(number)], CREATED)
    return round(at.reports.at[workload_id(number), CREATED] - began, 1)


# --------------------------------------------------------------------------------------------------------------- submit


async def _submit(server: str, found: kubernetes.Cluster, seconds: float) -> dict[str, Any]:
    """Submits at an even pace, none waiting for another; the first ten are start-up and do not count."""
    count = int(SUBMITS * seconds) + WARM
    sent: dict[str, float] = {}
    async with pods_made(found) as made, Muster(server) as muster:
        await muster.projects.create("bench", quotas=[pool_quota("default", count)])
        began = time.monotonic()

        async def one(number: int) -> None:
            await asyncio.sleep(max(0.0, began + number / SUBMITS - time.monotonic()))
            at = time.monotonic()
            workload = await muster.submit(_document(f"w-{number}"), project="bench")
            if number >= WARM:
                sent[workload.id] = at

        await asyncio.gather(*map(one, range(count)))
        await until(lambda: sent.keys() <= made.keys(), within=60)
    return {"submit_to_pod_ms": figures.spread([(made[each] - at) * 1e3 for each, at in sent.items()])}


def _document(name: str) -> str:
    return (
        "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\n"
        f"metadata: {{name: {name}, namespace: runai-bench}}\nspec:\n  name: {{value: {name}}}\n"
        f"  image: {{value: {IMAGE}}}\n  gpu: {{value: '1'}}\n  command: {{value: 'python train.py'}}\n"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as everywhere: the last line is the object in any case")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the part `status`")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    return parser.parse_args()


PARTS: Final = ("calls", "ratio", "status", "restart", "submit")


if __name__ == "__main__":
    sys.exit(main())
