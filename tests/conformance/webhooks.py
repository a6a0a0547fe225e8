"""A webhook that a real API server asks about the pods of chosen namespaces before it makes them.

One server serves all stages; each namespace has a review of its own, which may change at any time.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.support.certificates import authority

Object = dict[str, Any]
NAME: Final = "pods.example.com"
SECONDS: Final = 10  # until the API server gives the webhook up; what Kubernetes itself chooses
_JSON_PATCH: Final = "JSONPatch"


class Denied(Exception):
    """The webhook does not admit the pod; the message says why."""


class Broken(Exception):
    """The webhook closes the connection without an answer."""


class Silent(Exception):
    """The webhook never answers."""


Review = Callable[[Object], None]
"""Changes a pod in place, or raises Denied, Broken or Silent."""


class Webhooks:
    """reviews: by namespace. asked: how often the API server has asked about a pod, by namespace."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate
        self.url = ""
        self.reviews: dict[str, Review] = {}
        self.asked = Counter[str]()

    def configuration(self, namespace: str) -> Object:
        """What makes an API server ask about the pods of a namespace; without an answer none is made."""
        webhook = {
            "name": NAME,
            "clientConfig": {"url": self.url, "caBundle": b64encode(self._certificate).decode()},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": SECONDS,
        }
        return {"metadata": {"name": namespace}, "webhooks": [webhook]}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One question of the API server."""
        asked = (await request.json())["request"]
        response: Object = {"uid": asked["uid"], "allowed": True}
        pod = json.loads(json.dumps(asked["object"]))
        self.asked[asked["namespace"]] += 1
        try:
            self.reviews[asked["namespace"]](pod)
        except Denied as reason:
            response |= {"allowed": False, "status": {"message": str(reason)}}
        except Broken:
            if request.transport is not None:
                request.transport.abort()
        except Silent:
            await asyncio.Event().wait()
        if pod != asked["object"]:
            patch = [{"op": "replace", "path": "/spec", "value": pod["spec"]}]
            response |= {"patchType": _JSON_PATCH, "patch": b64encode(json.dumps(patch).encode()).decode()}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.json_response(review)


@asynccontextmanager
async def webhooks(folder: Path) -> AsyncIterator[Webhooks]:
    """The webhook's server, on a free port of this machine until the block ends. folder: for its certificate."""
    signer = authority(folder / "webhooks.crt")
    files = signer.issue(folder / "webhooks")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    made = Webhooks(signer.file.read_bytes())
    app = web.Application()
    app.router.add_post("/", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        yield made
    finally:
        await runner.cleanup()
