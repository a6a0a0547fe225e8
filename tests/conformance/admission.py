"""What a cluster does to pods before it admits them, as cases ask for it: on the fake API server and on a real one.

The pods of one workload are denied or changed, so that a case sees that the others go on; a quota holds for the
namespace of a project.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Final

import aiohttp

from tests.conformance.webhooks import NAME, Broken, Denied, Review, Silent, Webhooks
from tests.support.fake_api_server import FakeApiServer, refusal
from tests.support.waiting import eventually

Object = dict[str, Any]
Call = Callable[..., Awaitable[Any]]
_API: Final = "/apis/admissionregistration.k8s.io/v1"
_MERGE: Final = "application/merge-patch+json"
_ADMITTED: Final = 201
_THERE: Final = 409
QUOTA: Final = "gpus"


class By(StrEnum):
    """What denies a pod."""

    WEBHOOK = "a webhook"
    POLICY = "a ValidatingAdmissionPolicy"


class Trouble(StrEnum):
    """What is wrong with a webhook that no pod is made without."""

    DOWN = "down"
    SILENT = "silent"


class Admission(ABC):
    """Everything is admitted until a case asks for something else."""

    @abstractmethod
    async def deny(self, workload: str, message: str, by: By = By.WEBHOOK) -> None:
        """The pods of a workload are denied."""

    @abstractmethod
    async def mirror(self, workload: str, image: str) -> None:
        """The pods of a workload get another image."""

    @abstractmethod
    async def trouble(self, workload: str, kind: Trouble) -> None:
        """The webhook fails for the pods of a workload."""

    @abstractmethod
    async def admit(self) -> None:
        """The webhook admits every pod again."""

    @abstractmethod
    async def limit(self, pods: int) -> None:
        """A quota of the namespace allows as many new pods."""

    @property
    @abstractmethod
    def asked(self) -> int:
        """How often the webhook was asked about a pod."""


class FakeAdmission(Admission):
    """Of the fake API server, in the words of a real one."""

    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        self._asked = 0

    async def deny(self, workload: str, message: str, by: By = By.WEBHOOK) -> None:
        """The answer is that of the webhook, or of the policy."""
        if by is By.WEBHOOK:
            self._follow(workload, 403, "Forbidden", f'admission webhook "{NAME}" denied the request: {message}')
        else:
            words = f"ValidatingAdmissionPolicy 'p' with binding 'p' denied request: {message}"
            self._follow(workload, 422, "Invalid", f'pods "w" is forbidden: {words}')

    async def mirror(self, workload: str, image: str) -> None:
        """The pod is changed before it is stored."""

        def change(body: Object) -> None:
            if _is_of(body, workload):
                body["spec"]["containers"][0]["image"] = image

        self._server.admit = change

    async def trouble(self, workload: str, kind: Trouble) -> None:
        """The answer is that of the server, which has waited for the webhook."""
        why = {Trouble.DOWN: "EOF", Trouble.SILENT: "context deadline exceeded"}[kind]
        said = f'failed calling webhook "{NAME}": failed to call webhook: Post "https://127.0.0.1:1/": {why}'
        self._follow(workload, 500, "InternalError", f"Internal error occurred: {said}")

    async def admit(self) -> None:
        """Nothing is denied."""
        self._server.admit = lambda _: None

    async def limit(self, pods: int) -> None:
        """Every new pod is denied where there may be none."""

        def deny(body: Object) -> None:
            if body["kind"] == "Pod" and not pods:
                said = f"exceeded quota: {QUOTA}, requested: pods=1, used: pods=0, limited: pods=0"
                raise refusal(403, "Forbidden", f'pods "w" is forbidden: {said}')

        self._server.admit = deny

    @property
    def asked(self) -> int:
        """About pods of the workload."""
        return self._asked

    def _follow(self, workload: str, status: int, reason: str, message: str) -> None:
        def deny(body: Object) -> None:
            if _is_of(body, workload):
                self._asked += 1
                raise refusal(status, reason, message)

        self._server.admit = deny


class ServerAdmission(Admission):
    """Of a real API server. call: calls it. namespace: that of the project, which has to be there."""

    def __init__(self, call: Call, webhooks: Webhooks, namespace: str) -> None:
        self._call = call
        self._webhooks = webhooks
        self._namespace = namespace
        self._asked = 0

    async def deny(self, workload: str, message: str, by: By = By.WEBHOOK) -> None:
        """By a webhook, or by a policy in CEL."""
        if by is By.POLICY:
            await self._make_policy(workload, message)
            return

        def review(_: Object) -> None:
            raise Denied(message)

        await self._follow(workload, review)

    async def mirror(self, workload: str, image: str) -> None:
        """The webhook changes the pod."""

        def review(pod: Object) -> None:
            pod["spec"]["containers"][0]["image"] = image

        await self._follow(workload, review)

    async def trouble(self, workload: str, kind: Trouble) -> None:
        """The webhook closes the connection, or does not answer."""

        def review(_: Object) -> None:
            raise {Trouble.DOWN: Broken, Trouble.SILENT: Silent}[kind]

        await self._follow(workload, review)

    async def admit(self) -> None:
        """The webhook admits."""
        self._webhooks.reviews[self._namespace] = lambda _: None

    async def limit(self, pods: int) -> None:
        """A ResourceQuota. Its controller, which says how much is used, is played."""
        path, hard = f"/api/v1/namespaces/{self._namespace}/resourcequotas", {"pods": str(pods)}
        try:
            await self._call("POST", path, {"metadata": {"name": QUOTA}, "spec": {"hard": hard}})
        except aiohttp.ClientResponseError as error:
            if error.status != _THERE:
                raise
            await self._call("PATCH", f"{path}/{QUOTA}", {"spec": {"hard": hard}}, content=_MERGE)
        status = {"hard": hard, "used": {"pods": "0"}}
        await self._call("PATCH", f"{path}/{QUOTA}/status", {"status": status}, content=_MERGE)
        await eventually(self._probe, lambda code: (code == _ADMITTED) == (pods > 0))

    @property
    def asked(self) -> int:
        """About pods of the workload."""
        return self._asked

    async def _follow(self, workload: str, review: Review) -> None:
        """Review the pods of a workload from now on."""

        def chosen(pod: Object) -> None:
            if _is_of({"kind": "Pod", **pod}, workload):
                self._asked += 1
                review(pod)

        known = self._namespace in self._webhooks.reviews
        self._webhooks.reviews[self._namespace] = chosen
        if not known:
            await self._call(
                "POST", f"{_API}/mutatingwebhookconfigurations", self._webhooks.configuration(self._namespace)
            )
            await eventually(self._probe, lambda _: self._webhooks.asked[self._namespace] > 0)

    async def _make_policy(self, workload: str, message: str) -> None:
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        theirs = f"object.metadata.?labels['muster.io/workload'].orValue('') != '{workload}'"
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"namespaceSelector": chosen, "resourceRules": [pods]},
            "validations": [{"expression": theirs, "message": message}],
        }
        name = {"name": self._namespace}
        await self._call("POST", f"{_API}/validatingadmissionpolicies", {"metadata": name, "spec": spec})
        binding = {"policyName": self._namespace, "validationActions": ["Deny"]}
        await self._call("POST", f"{_API}/validatingadmissionpolicybindings", {"metadata": name, "spec": binding})
        await eventually(lambda: self._probe(workload), lambda code: code != _ADMITTED)

    async def _probe(self, workload: str = "none") -> int:
        """The status of an answer about a pod that is not made."""
        metadata = {"name": "probe", "labels": {"muster.io/workload": workload}}
        body = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        try:
            await self._call("POST", f"/api/v1/namespaces/{self._namespace}/pods?dryRun=All", body)
        except aiohttp.ClientResponseError as error:
            return error.status
        return _ADMITTED


def _is_of(body: Object, workload: str) -> bool:
    labels = body["metadata"].get("labels") or {}
    return body["kind"] == "Pod" and labels.get("muster.io/workload") == workload
