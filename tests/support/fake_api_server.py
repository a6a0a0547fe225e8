"""A Kubernetes API server in this process: objects with versions, lists in pages, watches, finalizers, preconditions.

As much of the real one as the agent uses, with faults on any call. What it does not check (schemas, rights) the tests
on a real API server check.
"""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

Object = dict[str, Any]
_KINDS: Final = frozenset(
    {"pods", "configmaps", "nodes", "namespaces", "leases", "events"}
    | {"resourceclaims", "resourceslices", "deviceclasses"}
    | {"ingresses", "services", "secrets", "poddisruptionbudgets", "networkpolicies", "persistentvolumeclaims"}
)
_HISTORY: Final = 5_000


@dataclass(frozen=True)
class Fault:
    """What happens to a call: it is answered with an error, before or after it worked, or not answered at all."""

    status: int = 500
    reason: str = "InternalError"
    message: str = "a fault of the test"
    after: bool = False
    silent: bool = False


def _nothing(verb: str, path: str) -> Fault | None:
    return None


@dataclass
class FakeApiServer:
    """The server. `fault` is asked before each call; `calls` counts them by verb.

    unserved: kinds that a server of an older version does not have.
    """

    objects: dict[str, dict[str, Object]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    fault: Callable[[str, str], Fault | None] = _nothing
    calls: dict[str, int] = field(default_factory=dict)
    logs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    heard: list[Callable[[str, str, Object], None]] = field(default_factory=list)
    admit: Callable[[Object], None] = lambda _: None
    oldest: int = 0
    unserved: set[str] = field(default_factory=set)
    url: str = ""
    _version: int = 0
    _events: list[tuple[int, str, str, Object]] = field(default_factory=list)
    _wake: asyncio.Condition = field(default_factory=asyncio.Condition)
    _cut: int = 0
    _telling: set[asyncio.Task[None]] = field(default_factory=set)

    # what tests do to it

    def put(self, kind: str, item: Object) -> Object:
        """Creates or replaces an object, as the cluster itself does."""
        key = _key(item)
        old = self.objects[kind].get(key)
        metadata = item.setdefault("metadata", {})
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", _now())
        return self._store(kind, key, item, "ADDED" if old is None else "MODIFIED")

    def change(self, kind: str, key: str, change: Callable[[Object], None]) -> Object:
        """Changes an object in place."""
        item = copy.deepcopy(self.objects[kind][key])
        change(item)
        return self._store(kind, key, item, "MODIFIED")

    def remove(self, kind: str, key: str) -> None:
        """Takes an object away, whatever its finalizers say."""
        item = self.objects[kind].pop(key, None)
        if item is not None:
            self._store(kind, key, item, "DELETED", keep=False)

    def forget_history(self) -> None:
        """Watches from before now are answered with 410."""
        self._events.clear()
        self.oldest = self._version

    async def cut_watches(self) -> None:
        """Ends every open watch."""
        self._cut += 1
        async with self._wake:
            self._wake.notify_all()

    # inside

    def _store(self, kind: str, key: str, item: Object, event: str, *, keep: bool = True) -> Object:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        if keep:
            self.objects[kind][key] = item
        self._events.append((self._version, kind, event, copy.deepcopy(item)))
        del self._events[:-_HISTORY]
        telling = asyncio.get_running_loop().create_task(self._tell())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        for hear in self.heard:
            hear(kind, event, item)
        return item

    async def _tell(self) -> None:
        async with self._wake:
            self._wake.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call."""
        verb = "WATCH" if request.query.get("watch") == "true" else request.method
        self.calls[verb] = self.calls.get(verb, 0) + 1
        fault = self.fault(verb, request.path)
        if fault is not None and not fault.after:
            return await _fail(fault)
        try:
            answer = await self._answer(request)
        except _Refusal as refusal:
            return _status(refusal.status, refusal.reason, refusal.message)
        return await _fail(fault) if fault is not None else answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind, name = parts[0], parts[1] if len(parts) > 1 else ""
        if kind not in _KINDS or kind in self.unserved:
            raise _Refusal(404, "NotFound", f"no {kind} here")
        key = f"{namespace}/{name}" if namespace else name
        if parts[2:] in (["log"], ["binding"]):
            return await self._below_a_pod(request, key, parts[2])
        body = json.loads(await request.read() or b"{}") if request.method != "GET" else {}
        match request.method, bool(name):
            case "GET", False:
                if request.query.get("watch") == "true":
                    return await self._watch(request, kind, namespace)
                return web.json_response(self._list(request, kind, namespace))
            case "GET", True:
                return web.json_response(self._get(kind, key))
            case "POST", _:
                return web.json_response(self._create(kind, namespace, body), status=201)
            case "PUT", _:
                return web.json_response(self._replace(kind, key, body))
            case "PATCH", _:
                return web.json_response(self._patch(kind, key, body))
            case _:
                return web.json_response(self._delete(kind, key, body))

    async def _below_a_pod(self, request: web.Request, key: str, what: str) -> web.StreamResponse:
        if what == "log":
            return await self._log(request, key)
        return web.json_response(self._bind(key, (await request.json())["target"]["name"]), status=201)

    def _get(self, kind: str, key: str) -> Object:
        try:
            return self.objects[kind][key]
        except KeyError:
            raise _Refusal(404, "NotFound", f'{kind} "{key}" not found') from None

    def _list(self, request: web.Request, kind: str, namespace: str) -> Object:
        chosen = [
            item
            for key, item in sorted(self.objects[kind].items())
            if _meant(item, namespace, request.query.get("labelSelector", ""))
            and _about(item, request.query.get("fieldSelector", ""))
        ]
        first = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or len(chosen) or 1)
        page = chosen[first : first + limit]
        metadata = {"resourceVersion": str(self._version)}
        if first + limit < len(chosen):
            metadata["continue"] = str(first + limit)
        return {"kind": "List", "metadata": metadata, "items": page}

    def _create(self, kind: str, namespace: str, body: Object) -> Object:
        if namespace and namespace not in self.objects["namespaces"]:
            raise _Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        if namespace and "deletionTimestamp" in self.objects["namespaces"][namespace]["metadata"]:
            raise _Refusal(403, "Forbidden", f"unable to create new content in {namespace}: it is being terminated")
        self.admit(body)
        if namespace:
            body["metadata"]["namespace"] = namespace
        key = _key(body)
        if key in self.objects[kind]:
            raise _Refusal(409, "AlreadyExists", f'{kind} "{body["metadata"]["name"]}" already exists')
        body["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        if kind == "pods":
            body["status"] = {"phase": "Pending", "conditions": []}
        return copy.deepcopy(self._store(kind, key, body, "ADDED"))

    def _bind(self, key: str, node: str) -> Object:
        """What a scheduler asks for: the pod has its node from now on."""
        pod = copy.deepcopy(self._get("pods", key))
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            raise _Refusal(409, "Conflict", "pod is already assigned to a node, or is being deleted")
        pod["spec"]["nodeName"] = node
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()}]
        return copy.deepcopy(self._store("pods", key, pod, "MODIFIED"))

    def _replace(self, kind: str, key: str, body: Object) -> Object:
        old = self._get(kind, key)
        if body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
            raise _Refusal(409, "Conflict", "the object has been modified")
        return copy.deepcopy(self._store(kind, key, body, "MODIFIED"))

    def _patch(self, kind: str, key: str, body: Object) -> Object:
        old = self._get(kind, key)
        said = body.get("metadata") or {}
        for field_ in ("uid", "resourceVersion"):
            if field_ in said and said[field_] != old["metadata"][field_]:
                raise _Refusal(409, "Conflict", f"precondition failed: {field_}")
        new = _merged(old, body)
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers") and _is_over(kind, new):
            del self.objects[kind][key]
            return copy.deepcopy(self._store(kind, key, new, "DELETED", keep=False))
        return copy.deepcopy(self._store(kind, key, new, "MODIFIED"))

    def _delete(self, kind: str, key: str, body: Object) -> Object:
        item = copy.deepcopy(self._get(kind, key))
        for field_, wanted in (body.get("preconditions") or {}).items():
            if item["metadata"][field_] != wanted:
                raise _Refusal(409, "Conflict", f"precondition failed: {field_}")
        grace = int(body.get("gracePeriodSeconds", item.get("spec", {}).get("terminationGracePeriodSeconds", 30)))
        if kind == "pods" and (not item["spec"].get("nodeName") or _is_over(kind, item)):
            grace = 0
        metadata = item["metadata"]
        metadata["deletionTimestamp"] = _now(grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if not metadata.get("finalizers") and (kind != "pods" or grace == 0):
            del self.objects[kind][key]
            return copy.deepcopy(self._store(kind, key, item, "DELETED", keep=False))
        return copy.deepcopy(self._store(kind, key, item, "MODIFIED"))

    async def _watch(self, request: web.Request, kind: str, namespace: str) -> web.StreamResponse:
        at = int(request.query["resourceVersion"])
        if at < self.oldest:
            raise _Refusal(410, "Expired", f"too old resource version: {at}")
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        cut = self._cut
        with suppress(ConnectionError):
            while cut == self._cut:
                for version, what, event, item in [one for one in self._events if one[0] > at]:
                    at = version
                    if what == kind and _meant(item, namespace, request.query.get("labelSelector", "")):
                        await answer.write(json.dumps({"type": event, "object": item}).encode() + b"\n")
                async with self._wake:
                    if self._version <= at and cut == self._cut:
                        await self._wake.wait()
        return answer

    async def _log(self, request: web.Request, key: str) -> web.StreamResponse:
        pod = self._get("pods", key)
        if not pod["status"].get("containerStatuses"):
            raise _Refusal(400, "BadRequest", "container main is waiting to start: ContainerCreating")
        lines = [one for one in self.logs.get(key, []) if one[0][:19] >= request.query.get("sinceTime", "")[:19]]
        lines = lines[-int(request.query.get("tailLines") or len(lines) or 1) :]
        stamped = request.query.get("timestamps") == "true"
        text = "".join(f"{at} {line}\n" if stamped else f"{line}\n" for at, line in lines)
        return web.Response(text=text)


class _Refusal(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def refusal(status: int, reason: str, message: str) -> Exception:
    """What `admit` raises for an object that the cluster does not take."""
    return _Refusal(status, reason, message)


def _meant(item: Object, namespace: str, selector: str) -> bool:
    metadata = item["metadata"]
    if namespace and metadata.get("namespace") != namespace:
        return False
    labels = metadata.get("labels") or {}
    for term in filter(None, selector.split(",")):
        name, found, value = term.partition("=")
        if name.endswith("!"):
            if labels.get(name.removesuffix("!")) == value:
                return False
        elif name not in labels or (found and labels[name] != value):
            return False
    return True


def _about(item: Object, selector: str) -> bool:
    """Whether an event is about the object that a field selector names by its uid."""
    wanted = selector.removeprefix("involvedObject.uid=")
    return not selector or item.get("involvedObject", {}).get("uid") == wanted


def _merged(old: Any, new: Any) -> Any:
    """A merge patch (RFC 7396)."""
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    found = copy.deepcopy(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), value)
    return found


def _is_over(kind: str, item: Object) -> bool:
    """Whether a deleted object of which no finalizer is left may go: a running pod waits for its kubelet."""
    return kind != "pods" or (
        not item["spec"].get("nodeName")
        or item["status"].get("phase") in {"Succeeded", "Failed"}
        or item["metadata"].get("deletionGracePeriodSeconds") == 0
    )


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _now(later: float = 0.0) -> str:
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() + later, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(status: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return web.json_response(body, status=status)


async def _fail(fault: Fault) -> web.StreamResponse:
    if fault.silent:
        await asyncio.sleep(3600)
    return _status(fault.status, fault.reason, fault.message)


@asynccontextmanager
async def api_server() -> AsyncIterator[FakeApiServer]:
    """A server on a free port of this machine until the block ends."""
    made = FakeApiServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await made.cut_watches()
        await runner.cleanup()
