"""Calls of one API server, on raw JSON.

kubernetes_asyncio reads the kubeconfig and refreshes tokens; its typed models would cost twelve times as much
(reference/replicas.md 6.2). Holds: a call ends within its bound; an answer that is an error is an
ApiError with the server's own words, and no answer is Unreachable.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration

from muster_chassis import logs, metrics
from muster_cluster_agent.domain.kubernetes.refusals import is_of_webhook
from muster_cluster_agent.errors import BackendError, ClusterFileError

Json = dict[str, Any]
CALL_SECONDS: Final = 30.0
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_CONNECTIONS: Final = 128
_IDLE_SECONDS: Final = 60.0
"""How long a connection is kept without a call. An API server closes it after 90. A new one costs both sides as much as
half a pod: with aiohttp's 15 seconds each burst of assignments began with a hundred of them."""
_READ_BYTES: Final = 1 << 21  # of a stream before it waits for its reader: an event may have as many
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_TOO_MANY: Final = 429
_TRIES: Final = 3  # of a call that the server cannot take now
_SERVERS_FAULT: Final = 500  # and above
_PAUSE: Final = 0.3
_LONGEST_PAUSE: Final = 5.0

CALLS = metrics.counter(
    "muster_agent_kubernetes_calls_total",
    unit="calls",
    meaning="Calls of the cluster's API server, by verb and by the class of the answer.",
    action="`5xx` or `none` grows: the API server is in trouble. `429` grows: it limits the agent; lower `rate`.",
    labels=("verb", "answer"),
)

_log = logs.get(__name__)


class ApiError(BackendError):
    """The API server's own refusal. status: the HTTP status; reason: its word, such as AlreadyExists."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        """message: the server's sentence. retry_after: seconds that it asks to wait."""
        super().__init__(message or f"the API server answered {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def gone_or_changed(self) -> bool:
        """Whether the object has gone, or is not the one any more that the call meant: a precondition failed."""
        return self.status in {_NOT_FOUND, _CONFLICT}

    @property
    def passing(self) -> bool:
        """Whether the same call may work in a while: the server is too busy, or fails by itself."""
        return self.status == _TOO_MANY or self.status >= _SERVERS_FAULT

    @property
    def repeated(self) -> bool:
        """Whether the call is made again at once. A webhook that failed was waited for, by ten seconds as a rule."""
        return self.passing and not is_of_webhook(self.message)


class Unreachable(BackendError):
    """The API server did not answer; what was asked for may have happened."""


class Bucket:
    """Lets `rate` calls a second through, and `burst` at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level = burst
        self._at = clock()

    async def take(self, *, urgent: bool = False) -> None:
        """Waits for a turn. Callers are served in their order, since each books its turn at once; an urgent one goes.

        What is urgent counts all the same, so that the others wait for it.
        """
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate) - 1
        self._at = now
        if self._level < 0 and not urgent:
            await asyncio.sleep(-self._level / self._rate)


async def configuration(kubeconfig: Path | None, context: str | None) -> Configuration:
    """How the cluster is reached: a kubeconfig, or the pod's own account where there is none.

    Raises ClusterFileError with what is missing.
    """
    found = Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(str(kubeconfig), context, client_configuration=found, persist_config=False)
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = "the pod's own account" if kubeconfig is None else f"the kubeconfig {kubeconfig}"
        raise ClusterFileError(f"{where} does not say how the cluster is reached: {error}") from error
    return found


class Client:
    """One API server. Use it as an async context manager."""

    def __init__(self, how: Configuration, *, rate: float, burst: float) -> None:
        """rate, burst: calls a second, and at once."""
        self._how = how
        self._bucket = Bucket(rate, burst)
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None
        self.answered_at = 0.0
        """Monotonic time of the last answer, whatever it was."""
        self.server_date: tuple[str, float] = ("", 0.0)
        """What time it was by the last answer (RFC 9110, to the second), and by this machine, in seconds since 1970."""
        self.lead_left: Callable[[], float] = lambda: CALL_SECONDS
        """Seconds for which this agent still leads the cluster: without the lead nothing is written."""

    async def __aenter__(self) -> Self:
        """Opens the session."""
        connector = aiohttp.TCPConnector(
            limit=_CONNECTIONS, ssl=_tls_context(self._how), keepalive_timeout=_IDLE_SECONDS
        )
        # Without `trust_env`: with it aiohttp reads the environment and ~/.netrc in a thread before each call.
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=_READ_BYTES)
        self._proxy = self._how.proxy or _proxy_of(str(self._how.host))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes every connection."""
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **query: str) -> Json:
        """One object, or one page of a list. Raises ApiError or Unreachable."""
        return await self.call("GET", path, query=query)

    async def find(self, path: str) -> Json | None:
        """Return one object; None where there is none. Raises ApiError or Unreachable."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    async def post(self, path: str, body: Json) -> Json:
        """Creates an object. Raises ApiError or Unreachable."""
        return await self.call("POST", path, body=body)

    async def patch(self, path: str, body: Json) -> Json:
        """Changes an object by a merge patch (RFC 7396). Raises ApiError or Unreachable."""
        return await self.call("PATCH", path, body=body, content=MERGE_PATCH)

    async def delete(self, path: str, body: Json | None = None) -> Json:
        """Deletes an object. Raises ApiError or Unreachable."""
        return await self.call("DELETE", path, body=body or {})

    async def call(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content: str = JSON,
        accept: str = JSON,
        fenced: bool = True,
    ) -> Json:
        """One call, made again where the server is too busy or fails. Raises ApiError or Unreachable.

        content, accept: the form of the body, and that of the answer. fenced: it is not made by an agent that does not
        lead. The Lease itself is taken without.
        """
        data = None if body is None else msgspec.json.encode(body)
        for attempt in range(1, _TRIES + 1):
            await self._bucket.take(urgent=verb == "DELETE")  # it gives capacity back
            once = self._once(verb, path, data, query or {}, (content, accept))
            try:
                return await (self._led(once) if fenced and verb != "GET" else once)
            except ApiError as error:
                if not error.repeated or attempt == _TRIES:
                    raise
                await asyncio.sleep(min(_LONGEST_PAUSE, error.retry_after or _PAUSE * attempt))
        raise AssertionError("the last try returns or raises")

    async def _led(self, write: Coroutine[Any, Any, Json]) -> Json:
        """Return the answer of a write, which is given up when the lead ends. Raises ApiError or Unreachable.

        A lead that is renewed meanwhile carries the call on: a webhook may take longer than one renewal lasts.
        """
        task = asyncio.ensure_future(write)
        try:
            while (left := self.lead_left()) > 0:
                done, _ = await asyncio.wait({task}, timeout=left)
                if done:
                    return task.result()
            raise Unreachable("this agent does not lead the cluster any more, and writes nothing")
        finally:
            task.cancel()

    async def _once(
        self, verb: str, path: str, data: bytes | None, query: Mapping[str, str], forms: tuple[str, str]
    ) -> Json:
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        async with self._answer(verb, path, data, query, forms, timeout) as answer:
            try:
                found = decoded(await answer.read())
            except ValueError as error:
                raise Unreachable(f"{self._how.host} answered {verb} {path} with something else than JSON") from error
            return found

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], silence: float, accept: str = JSON
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A long answer, read as it comes. silence: seconds without a byte after which it counts as broken."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CALL_SECONDS, sock_read=silence)
        async with self._answer("GET", path, None, query, (JSON, accept), timeout) as answer:
            yield answer.content

    @asynccontextmanager
    async def _answer(
        self,
        verb: str,
        path: str,
        data: bytes | None,
        query: Mapping[str, str],
        forms: tuple[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            raise Unreachable("the client is not open")
        content, accept = forms
        headers = {"Accept": accept, "Content-Type": content, "User-Agent": "muster-agent"}
        try:
            token = await self._how.get_api_key_with_prefix("BearerToken")
        except (OSError, config.ConfigException) as error:  # the token's file, or the program that makes one
            raise Unreachable(f"no token for {self._how.host}: {error}") from error
        if token:
            headers["Authorization"] = token
        call = self._session.request(
            verb,
            f"{self._how.host}{path}",
            data=data,
            params=query,
            headers=headers,
            timeout=timeout,
            proxy=self._proxy,
            server_hostname=self._how.tls_server_name,
        )
        try:
            async with call as answer:
                self.answered_at = time.monotonic()
                self.server_date = (answer.headers.get("Date", ""), time.time())
                CALLS.labels(verb, _class_of(answer.status)).inc()
                if answer.status >= 400:  # noqa: PLR2004  where HTTP's errors begin
                    raise await _error(answer)
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            CALLS.labels(verb, "none").inc()
            raise Unreachable(f"{self._how.host} does not answer: {error!r}") from error


def decoded(data: bytes) -> Json:
    """The object that a JSON text is. Raises ValueError."""
    try:
        found: Json = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"no JSON: {error}") from error
    return found


def _tls_context(how: Configuration) -> ssl.SSLContext:
    """Return whom a kubeconfig trusts and which certificate it shows, as kubernetes_asyncio's own client reads it.

    That client gives its connector no other idle time. Raises OSError for a certificate that cannot be read.
    """
    found = ssl.create_default_context(cafile=how.ssl_ca_cert)
    if how.cert_file:
        found.load_cert_chain(how.cert_file, keyfile=how.key_file)
    if not how.verify_ssl:
        found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    if how.disable_strict_ssl_verification:
        found.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return found


def _proxy_of(address: str) -> str | None:
    """The proxy that the environment names for an address (`https_proxy`, `no_proxy` and so on)."""
    parts = urlsplit(address)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _class_of(status: int) -> str:
    return "429" if status == _TOO_MANY else f"{status // 100}xx"


async def _error(answer: aiohttp.ClientResponse) -> ApiError:
    text = (await answer.read())[:65536].decode("utf-8", "replace")
    try:
        said = decoded(text.encode())
        reason, message = str(said.get("reason", "")), str(said.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", text[:1000]
    wait = answer.headers.get("Retry-After", "")
    return ApiError(answer.status, reason, message, float(wait) if wait.isdigit() else 0.0)
