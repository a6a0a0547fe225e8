"""What the verbs of departments, projects and node pools share: how they answer, apply documents and read quotas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter
from google.protobuf.message import Message
from rich.console import RenderableType

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.org_files import records
from muster_client.cli.output import emit, say
from muster_client.cli.render import organisation as shown
from muster_client.errors import InvalidInput, NotFound
from muster_client.quotas import pool_quota

Files = Annotated[list[Path], Parameter(name=["--file", "-f"], negative="")]
Several = Annotated[list[str] | None, Parameter(negative="")]
Record = TypeVar("Record", tenancy_pb2.Department, tenancy_pb2.Project, tenancy_pb2.NodePool)
Put = Callable[[Record], Awaitable[Record]]


def tell(common: Common, value: Message | Iterable[Message] | dict[str, str], text: RenderableType) -> int:
    """The end of a verb: the value as JSON where it was asked for, else the text."""
    if common.json:
        emit(value)
    else:
        say(text)
    return Exit.OK


async def apply(
    common: Common, files: Iterable[Path], kind: type[Record], update: Put[Record], create: Put[Record]
) -> int:
    """Changes what is there and makes what is not, document by document; says each as it is done."""
    made: list[Record] = []
    for _, asked in records(files, kind):
        try:
            made.append(await update(asked))
        except NotFound:
            made.append(await create(asked))
        if not common.json:
            say(shown.applied(made[-1]))
    if common.json:
        emit(made)
    return Exit.OK


def given_quota(pool: str, gpus: str, limit: str | None, weight: str) -> tenancy_pb2.PoolQuota:
    """A quota from options. Raises InvalidInput."""
    try:
        return pool_quota(pool, gpus, limit=limit, weight=weight)
    except ValueError as problem:
        raise InvalidInput(str(problem)) from None


def given_quotas(texts: Iterable[str] | None) -> list[tenancy_pb2.PoolQuota]:
    """Quotas as POOL=GPUS. Raises InvalidInput."""
    return [_quota(text) for text in texts or ()]


def _quota(text: str) -> tenancy_pb2.PoolQuota:
    pool, equals, amount = text.rpartition("=")
    try:
        return pool_quota(pool if equals else "default", amount)
    except ValueError as problem:
        raise InvalidInput(f"--quota {text}: {problem}; write POOL=GPUS, such as default=4") from None
