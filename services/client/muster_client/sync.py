"""The client for programs without asyncio: the same calls, each returning its answer.

    with MusterSync() as muster:
        workload = muster.submit(document, project="team-a")
        done = muster.wait(workload.id, timeout=600)

One event loop in a thread of its own makes the calls of the async client. Holds: what that client raises is raised
here; an iterator fetches as it is read; Ctrl-C and `close` end what is under way. It may be used by several threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from muster.api.v1 import explain_pb2, usage_pb2, workloads_pb2
from muster.events.v1 import scheduler_pb2
from muster.workload.v1 import workload_pb2
from muster_client.calls import OnRetry, Patience
from muster_client.drafts import Applied, Draft
from muster_client.errors import MusterError, Violation
from muster_client.muster import LogLine, Muster
from muster_client.phases import TERMINAL, Phase
from muster_client.watching import WatchItem

T = TypeVar("T")
_END: Final = object()
_CLOSE_SECONDS: Final = 10.0


class MusterSync:
    """A client of one control plane. Arguments as those of `Muster`; use it as `with`.

    What is not here under its own name is reached through `call` and `each`:

        muster.call(lambda m: m.projects.create("team-a"))
        for node in muster.each(lambda m: m.nodes.list()): ...
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        patience: Patience | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="muster-client", daemon=True)
        self._thread.start()
        try:
            # gRPC's channel belongs to the loop in which it is made.
            self._muster = self._run(_made(server, token, patience, on_retry))
        except BaseException:
            self._end()
            raise
        self.server = self._muster.server

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every call and stream of this client; a second call changes nothing."""
        if self._loop.is_closed():
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._muster.close(), self._loop).result(_CLOSE_SECONDS)
        self._end()

    def call(self, work: Callable[[Muster], Coroutine[Any, Any, T]]) -> T:
        """The answer of any call of the async client."""
        return self._run(work(self._muster))

    def each(self, work: Callable[[Muster], AsyncIterator[T]]) -> Iterator[T]:
        """The items of any iterator of the async client, fetched as they are read."""
        items = work(self._muster)
        try:
            while (item := self._run(_next(items))) is not _END:
                yield item  # type: ignore[misc]  # the end is the only other thing that `_next` answers
        finally:
            if (close := getattr(items, "aclose", None)) is not None and not self._loop.is_closed():
                self._run(close())

    def submit(
        self, draft: Draft, *, project: str = "", cluster: str = "", verdict: float = 0.0, key: str | None = None
    ) -> workload_pb2.Workload:
        """As `Muster.submit`."""
        return self.call(lambda m: m.submit(draft, project=project, cluster=cluster, verdict=verdict, key=key))

    def apply(
        self, draft: Draft, *, project: str = "", cluster: str = "", verdict: float = 0.0, key: str | None = None
    ) -> Applied:
        """As `Muster.apply`."""
        return self.call(lambda m: m.apply(draft, project=project, cluster=cluster, verdict=verdict, key=key))

    def submit_many(
        self, drafts: Iterable[Draft], *, project: str = "", key: str | None = None
    ) -> list[str | MusterError]:
        """As `Muster.submit_many`."""
        return self.call(lambda m: m.submit_many(drafts, project=project, key=key))

    def validate(self, draft: Draft, *, project: str = "") -> list[Violation]:
        """As `Muster.validate`."""
        return self.call(lambda m: m.validate(draft, project=project))

    def get(self, workload: str, *, project: str = "") -> workload_pb2.Workload:
        """As `Muster.get`."""
        return self.call(lambda m: m.get(workload, project=project))

    def get_yaml(self, workload: str, *, project: str = "") -> str:
        """As `Muster.get_yaml`."""
        return self.call(lambda m: m.get_yaml(workload, project=project))

    def list(
        self,
        *,
        project: str = "",
        phases: Sequence[Phase] = (),
        name_prefix: str = "",
        include_deleted: bool = False,
        page_size: int = 200,
    ) -> Iterator[workload_pb2.Workload]:
        """As `Muster.list`."""
        return self.each(
            lambda m: m.list(
                project=project,
                phases=phases,
                name_prefix=name_prefix,
                include_deleted=include_deleted,
                page_size=page_size,
            )
        )

    def watch(
        self, *, project: str = "", workload: str | None = None, phases: Sequence[Phase] = (), cursor: str = ""
    ) -> Iterator[WatchItem]:
        """As `Muster.watch`."""
        return self.each(lambda m: m.watch(project=project, workload=workload, phases=phases, cursor=cursor))

    def archived(
        self,
        *,
        project: str = "",
        name: str = "",
        since: datetime | None = None,
        before: datetime | None = None,
        include_deleted: bool = False,
        page_size: int = 200,
    ) -> Iterator[workload_pb2.Workload]:
        """As `Muster.archived`."""
        return self.each(
            lambda m: m.archived(
                project=project,
                name=name,
                since=since,
                before=before,
                include_deleted=include_deleted,
                page_size=page_size,
            )
        )

    def events(
        self, workload: str, *, project: str = "", page_size: int = 200
    ) -> Iterator[workloads_pb2.WorkloadEvent]:
        """As `Muster.events`."""
        return self.each(lambda m: m.events(workload, project=project, page_size=page_size))

    def wait(
        self, workload: str, *, project: str = "", phases: Iterable[Phase] = TERMINAL, timeout: float | None = None
    ) -> workload_pb2.Workload:
        """As `Muster.wait`."""
        return self.call(lambda m: m.wait(workload, project=project, phases=phases, timeout=timeout))

    def logs(
        self,
        workload: str,
        *,
        project: str = "",
        replica: str = "",
        follow: bool = False,
        tail: int = 0,
        since: datetime | None = None,
    ) -> Iterator[workloads_pb2.StreamLogsResponse]:
        """As `Muster.logs`."""
        return self.each(
            lambda m: m.logs(workload, project=project, replica=replica, follow=follow, tail=tail, since=since)
        )

    def log_lines(
        self,
        workload: str,
        *,
        project: str = "",
        replica: str = "",
        follow: bool = False,
        tail: int = 0,
        since: datetime | None = None,
    ) -> Iterator[LogLine]:
        """As `Muster.log_lines`."""
        return self.each(
            lambda m: m.log_lines(workload, project=project, replica=replica, follow=follow, tail=tail, since=since)
        )

    def suspend(self, workload: str, *, project: str = "", key: str | None = None) -> workload_pb2.Workload:
        """As `Muster.suspend`."""
        return self.call(lambda m: m.suspend(workload, project=project, key=key))

    def resume(self, workload: str, *, project: str = "", key: str | None = None) -> workload_pb2.Workload:
        """As `Muster.resume`."""
        return self.call(lambda m: m.resume(workload, project=project, key=key))

    def delete(self, workload: str, *, project: str = "", key: str | None = None) -> workload_pb2.Workload:
        """As `Muster.delete`."""
        return self.call(lambda m: m.delete(workload, project=project, key=key))

    def why(self, workload: str, *, project: str = "") -> scheduler_pb2.Explanation:
        """As `Muster.why`."""
        return self.call(lambda m: m.why(workload, project=project))

    def what_if(self, drafts: Sequence[workloads_pb2.WorkloadDraft]) -> explain_pb2.WhatIfResponse:
        """As `Muster.what_if`."""
        return self.call(lambda m: m.what_if(drafts))

    def usage(self, *, project: str = "") -> Sequence[usage_pb2.WorkloadUsage]:
        """As `Muster.usage`."""
        return self.call(lambda m: m.usage(project=project))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this client is closed: make another one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while it waits: the call ends too
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


async def _made(server: str | None, token: str | None, patience: Patience | None, on_retry: OnRetry | None) -> Muster:
    return Muster(server, token, patience=patience, on_retry=on_retry)


async def _next(items: AsyncIterator[T]) -> T | object:
    return await anext(items, _END)
