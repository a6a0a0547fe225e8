"""The scheduler and the kubelets of an API server, played by the calls that they make themselves.

Works on a real API server and on the fake one. Pods are bound, run, and end as their program says. What keeps a pod
from starting is said by its image. Holds: the kubelet deletes a pod only after its containers have ended.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import aiohttp

from tests.conformance import drivers, programs
from tests.conformance.kai import SCHEDULER as KAI
from tests.conformance.kai import Kai
from tests.support import hami
from tests.support.fake_kubelet import binding, node_info, now, pinned_to, words_of
from tests.support.kubernetes import session_with

Object = dict[str, Any]
MERGE: Final = "application/merge-patch+json"
_AGAIN: Final = 0.1
_UNAVAILABLE: Final = 503
_GONE: Final = frozenset({404, 409, 410})
_WAITING: Final = {
    "Not/An@Image": ("InvalidImageName", "couldn't parse image name"),
    "never.example/pulled:1": ("ErrImageNeverPull", "Container image is not present with pull policy of Never"),
}
BAD_IMAGES: Final = tuple(_WAITING)
"""Images of which a kubelet says at once that they can never start."""
REJECTED_IMAGE: Final = "rejected.example/pod:1"
"""An image by which a test says that the kubelet refuses the pod."""


class Kubelets:
    """Every node of a cluster but the real ones, whose pods are bound and counted.

    starts: how often a command was started, by the pod's name.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, real: Collection[str] = ()) -> None:
        self._session = session
        self._url = url
        self._real = frozenset(real)
        self._containers_of: dict[str, set[str]] = {}  # of pods on real nodes, by the pod's name
        self.starts: Counter[str] = Counter()
        self.pods: dict[str, Object] = {}  # by path, as last seen
        self.silent: set[str] = set()
        self.unbound: dict[str, Object] = {}  # by node: the condition of pods that are not bound to it
        self.complaints: list[str] = []
        self.drivers = drivers.Drivers(self.call)
        self.kai = Kai(self.call)
        self.instead: dict[str, list[str] | None] = {}  # by node of HAMi: what it gives; None: what is asked for
        self._ends: dict[str, int] = {}  # by pod: with what it is to end
        self._killed_at: dict[str, float] = {}  # by path: when the grace of a pod that does not listen is over
        self._ended_at_boot: set[str] = set()  # pods that a reboot has ended
        self._steps: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # what cases do

    async def add_node(self, name: str, gpus: int = 8) -> None:
        """A node that is Ready."""
        await self.call(
            "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
        )
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "250", "nvidia.com/gpu": str(gpus)}
        status = {"allocatable": amounts, "capacity": amounts, "nodeInfo": node_info(f"{name}-boot-1")}
        await self.set_node(name, {"status": {**status, "conditions": [_ready(yes=True)]}})

    async def register(self, node: str, text: str) -> None:
        """HAMi's device plugin registers the devices of a node, and HAMi's scheduler binds its pods from now on."""
        self.instead.setdefault(node, None)
        said = {"metadata": {"annotations": {hami.REGISTERED: text}}}
        await self.call("PATCH", f"/api/v1/nodes/{node}", said, content=MERGE)

    async def set_node(self, name: str, change: Object) -> None:
        """Changes a node, its status too."""
        path = f"/api/v1/nodes/{name}"
        if "spec" in change:
            await self.call("PATCH", path, {"spec": change["spec"]}, content=MERGE)
        if "status" in change:
            await self.call("PATCH", f"{path}/status", {"status": change["status"]}, content=MERGE)

    async def silence(self, name: str) -> None:
        """The kubelet of a node falls silent."""
        self.silent.add(name)
        await self.set_node(name, {"status": {"conditions": [_ready(yes=False)]}})

    async def wake(self, name: str) -> None:
        """It is back, and nothing has ended meanwhile."""
        self.silent.discard(name)
        await self.set_node(name, {"status": {"conditions": [_ready(yes=True)]}})
        self._look_again(name)

    async def reboot(self, name: str) -> None:
        """The node starts again: what ran there has ended, and its kubelet no longer knows how."""
        self._ended_at_boot |= {path for path, pod in self.pods.items() if pod["spec"].get("nodeName") == name}
        node = await self.call("GET", f"/api/v1/nodes/{name}")
        head, _, number = node["status"]["nodeInfo"]["bootID"].rpartition("-")
        self.silent.discard(name)
        info = {**node["status"]["nodeInfo"], "bootID": f"{head}-{int(number) + 1}"}
        await self.set_node(name, {"status": {"conditions": [_ready(yes=True)], "nodeInfo": info}})
        self._look_again(name)

    async def finish(self, pod: str, code: int) -> None:
        """The command of a pod ends with a code; the pod is awaited."""
        self._ends[pod] = code
        for path in [path for path in self.pods if path.endswith(f"/{pod}")]:
            self._take(path)

    async def release_claim(self, pod: str) -> None:
        """The claim of a pod that has ended is released, which was kept."""
        self.drivers.kept.discard(pod)
        for path in [path for path in self.pods if path.endswith(f"/{pod}")]:
            self._take(path)

    async def report(self, path: str, status: Object) -> None:
        """The kubelet of a pod says something of it; what is not said stays."""
        await self._status(path, status)

    async def call(self, verb: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """One call. Raises aiohttp.ClientResponseError."""
        headers = {"Content-Type": content}
        data = None if body is None else json.dumps(body)
        async with self._session.request(verb, f"{self._url}{path}", data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise aiohttp.ClientResponseError(
                    answer.request_info, (), status=answer.status, message=f"{verb} {path}: {text[:500]}"
                )
            return json.loads(text)

    # inside

    async def follow(self) -> None:
        """Watches pods for ever, and plays each one that changes."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                listed = await self.call("GET", "/api/v1/pods")
                self.pods = {_path(item): item for item in listed["items"]}
                for path in self.pods:
                    self._take(path)
                await self._watch(listed["metadata"]["resourceVersion"])
            await asyncio.sleep(0.1)

    async def _watch(self, version: str) -> None:
        query = f"/api/v1/pods?watch=true&resourceVersion={version}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(f"{self._url}{query}", timeout=timeout) as answer:
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                path = _path(event["object"])
                if event["type"] == "DELETED":
                    await self.drivers.release(path, event["object"])
                    await self.kai.release(path)
                    self.pods.pop(path, None)
                    self._steps.pop(path, None)
                else:
                    self._know(path, event["object"])
                    self._take(path)

    def _know(self, path: str, pod: Object) -> None:
        """Remembers a pod, unless a later state of it is known: an answer may come before the event of its change."""
        known = self.pods.get(path)
        if known is None or _version(known) <= _version(pod):
            self.pods[path] = pod

    def _look_again(self, node: str) -> None:
        for path, pod in [*self.pods.items()]:
            if _node_of(pod) == node:
                self._take(path)

    def _take(self, path: str) -> None:
        task = asyncio.create_task(self._play(path))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self, path: str) -> None:
        lock = self._steps.setdefault(path, asyncio.Lock())
        async with lock:
            pod = self.pods.get(path)
            if pod is None or "muster.io/workload" not in (pod["metadata"].get("labels") or {}):
                return
            try:
                await self._step(path, pod)
            except aiohttp.ClientResponseError as error:
                if error.status == _UNAVAILABLE:  # a fault of the case
                    asyncio.get_running_loop().call_later(_AGAIN, self._take, path)
                elif error.status not in _GONE:  # it has changed meanwhile: the next event tells how
                    self.complaints.append(f"{path}: {error}")
            except (KeyError, ValueError, TypeError) as error:
                self.complaints.append(f"{path}: {error!r}")

    async def _step(self, path: str, pod: Object) -> None:
        """The next thing that happens to a pod."""
        node, deleting = _node_of(pod), "deletionTimestamp" in pod["metadata"]
        if node in self.silent:
            return
        if pod["status"].get("phase") in {"Succeeded", "Failed"}:
            await self.drivers.release(path, pod)
            await self.kai.release(path)
        if not pod["spec"].get("nodeName"):
            if not deleting and pod["spec"].get("schedulerName") != drivers.REAL:
                await self._bind(path, pod, node)
            return
        if node in self._real:
            self._count(pod)
            return
        if pod["status"].get("phase") in {"Succeeded", "Failed"}:
            if deleting and pod["metadata"].get("deletionGracePeriodSeconds"):
                await self._delete(path, pod)
            return
        statuses = pod["status"].get("containerStatuses") or []
        if path in self._ended_at_boot:
            await self._end(path, pod, 137, "ContainerStatusUnknown" if statuses else "")
            self._ended_at_boot.discard(path)
        elif not statuses or "waiting" in statuses[0]["state"]:
            await self._start(path, pod, deleting=deleting)
        else:
            await self._go_on(path, pod, deleting=deleting)

    def _count(self, pod: Object) -> None:
        """Counts the containers of a pod on a real node, which its kubelet starts by itself."""
        name = pod["metadata"]["name"]
        seen = self._containers_of.setdefault(name, set())
        statuses = pod["status"].get("containerStatuses") or ()
        seen |= {one["containerID"] for one in statuses if one.get("containerID")}
        self.starts[name] = len(seen)

    async def _bind(self, path: str, pod: Object, node: str) -> None:
        if node in self.unbound:
            if not pod["status"].get("conditions"):
                await self._status(path, {"conditions": [self.unbound[node]]})
            return
        if pod["spec"].get("schedulerName") == KAI and not await self.kai.bind(path, pod, node):
            return
        await self.drivers.allocate(path, pod)
        if node in self.instead and (given := hami.given(pod, self.instead[node])):
            await self.call("PATCH", path, {"metadata": {"annotations": given}}, content=MERGE)
        await self.call("POST", f"{path}/binding", binding(pod["metadata"]["name"], node))

    async def _start(self, path: str, pod: Object, *, deleting: bool) -> None:
        name, main = pod["metadata"]["name"], pod["spec"]["containers"][0]
        if deleting:
            await self._status(path, {"phase": "Failed"})
            return
        if main["image"] == REJECTED_IMAGE:
            said = {"reason": "UnexpectedAdmissionError", "message": "Pod was rejected: it does not fit"}
            await self._status(path, {"phase": "Failed", **said})
            return
        if main["image"] in _WAITING:
            if not pod["status"].get("containerStatuses"):
                reason, message = _WAITING[main["image"]]
                await self._containers(path, main, {"waiting": {"reason": reason, "message": message}}, identity="")
            return
        self._check_alone(path, pod)
        self.starts[name] += 1
        running = {"running": {"startedAt": now()}}
        await self._containers(path, main, running, identity=f"played://{name}-{self.starts[name]}", ready=True)

    async def _go_on(self, path: str, pod: Object, *, deleting: bool) -> None:
        name, text = pod["metadata"]["name"], words_of(pod["spec"]["containers"][0])
        code = self._ends.get(name, _CODES.get(text))
        if code is None and deleting:
            code = self._stopped(path, text, float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
        if code is not None:
            reason = "StartError" if text == programs.MISSING else "Completed" if code == 0 else "Error"
            await self._end(path, pod, code, reason)
            self._ends.pop(name, None)

    def _stopped(self, path: str, text: str, grace: float) -> int | None:
        """With what a program ends that is asked to stop; None: it has some of its grace left."""
        if grace == 0:
            return 137
        if text != _STUBBORN:
            return 0 if text == _POLITE else 143
        left = self._killed_at.setdefault(path, time.monotonic() + grace) - time.monotonic()
        if left <= 0:
            return 137
        asyncio.get_running_loop().call_later(left, self._take, path)
        return None

    def _check_alone(self, path: str, pod: Object) -> None:
        """Complains where another incarnation of the replica still runs. Revisions of a service may overlap."""
        mine = _place_of(pod)
        for other, each in self.pods.items():
            if other != path and each["status"].get("phase") == "Running" and _place_of(each) == mine:
                self.complaints.append(f"{path} was started while {other} runs")

    async def _end(self, path: str, pod: Object, code: int, reason: str) -> None:
        """The pod's container has ended; reason: empty: it has never had one."""
        phase = "Succeeded" if code == 0 else "Failed"
        if not reason:
            await self._status(path, {"phase": phase})
            return
        last = pod["status"]["containerStatuses"][0]
        started = (last["state"].get("running") or {}).get("startedAt") or now()
        ended = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now()}
        if reason != "ContainerStatusUnknown":
            ended["containerID"] = last["containerID"]
        state = {"terminated": ended}
        await self._containers(path, pod["spec"]["containers"][0], state, identity=last["containerID"], phase=phase)

    async def _containers(
        self, path: str, main: Object, state: Object, *, identity: str, ready: bool = False, phase: str = ""
    ) -> None:
        one = {"name": main["name"], "image": main["image"], "imageID": "x", "restartCount": 0, "ready": ready}
        if identity:
            one["containerID"] = identity
        told = phase or ("Running" if ready else "Pending")
        await self._status(path, {"phase": told, "podIP": "10.0.0.9", "containerStatuses": [{**one, "state": state}]})

    async def _status(self, path: str, status: Object) -> None:
        changed = await self.call("PATCH", f"{path}/status", {"status": status}, content=MERGE)
        if path in self.pods:
            self._know(path, changed)

    async def _delete(self, path: str, pod: Object) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self.call("DELETE", path, body)


@asynccontextmanager
async def playing(url: str, token: str, real: Collection[str] = ()) -> AsyncIterator[Kubelets]:
    """Kubelets that play until the block ends. The certificate of the API server is its own, and is not checked.

    real: nodes that have kubelets.
    """
    async with session_with(token) as session:
        made = Kubelets(session, url, real)
        following = asyncio.create_task(made.follow())
        try:
            yield made
        finally:
            following.cancel()
            for task in [*made._tasks]:
                task.cancel()
            await asyncio.gather(following, *made._tasks, return_exceptions=True)


def environment_of(pod: Object) -> dict[str, str]:
    """The variables of a pod's own container that are no references; the API leaves out what is empty."""
    variables = pod["spec"]["containers"][0]["env"]
    return {one["name"]: one.get("value", "") for one in variables if "valueFrom" not in one}


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _place_of(pod: Object) -> tuple[str, ...]:
    """What only one pod may be at a time."""
    labels = pod["metadata"].get("labels") or {}
    service = pod["metadata"].get("annotations", {}).get("muster.io/pattern") == "service"
    generation = labels.get("muster.io/run", "").partition("-")[0] if service else ""
    return (*(labels.get(f"muster.io/{key}", "") for key in ("workload", "role", "index")), generation)


def _version(pod: Object) -> int:
    """Versions of one object are compared as numbers (KEP-5504)."""
    return int(pod["metadata"]["resourceVersion"])


def _node_of(pod: Object) -> str:
    """Where it is bound, or where it is to be bound."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    try:
        return pinned_to(spec)
    except KeyError:
        return ""


def _ready(*, yes: bool) -> Object:
    status = "True" if yes else "Unknown"
    return {"type": "Ready", "status": status, "lastTransitionTime": now(), "lastHeartbeatTime": now()}


def _played_as(command: str) -> str:
    """A program as it stands in a pod."""
    return shlex.join(shlex.split(command))


_POLITE: Final = _played_as(programs.POLITE)
_STUBBORN: Final = _played_as(programs.STUBBORN)
_CODES: Final = {
    _played_as(programs.SUCCEEDS): 0,
    _played_as(programs.TELLS): 0,
    _played_as(programs.MISSING): 128,  # as containerd has it
    **{_played_as(programs.ends(code)): code for code in range(256)},
    **{_played_as(programs.dies(signal)): 128 + number for signal, number in programs.SIGNALS.items()},
}
"""With what programs end by themselves; the others go on."""
