"""What the verbs of departments, projects and node pools share: how they answer, apply documents and read quotas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter
from google.protobuf.message import Message
from rich.console import RenderableType

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.failures import in_file
from muster_client.cli.options import Common
from muster_client.cli.org_files import RULES, Written, records
from muster_client.cli.output import emit, say
from muster_client.cli.own_words import in_words, key, option
from muster_client.cli.render import organisation as shown
from muster_client.errors import InvalidInput, MusterError, NotFound
from muster_client.muster import Muster
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
    for one in records(files, kind):
        try:
            made.append(await _put(one.record, update, create))
        except MusterError as problem:
            raise _refused(one, problem, f"{len(made)} before it applied" if made else "nothing was applied") from None
        if not common.json:
            say(shown.applied(made[-1]))
    if common.json:
        emit(made)
    return Exit.OK


async def _put(asked: Record, update: Put[Record], create: Put[Record]) -> Record:
    try:
        return await update(asked)
    except NotFound:
        return await create(asked)


def _refused(one: Written[Record], problem: MusterError, done: str) -> MusterError:
    """The control plane's refusal of a document, at the lines of its keys; another error as it is."""
    if not problem.violations:
        return problem
    said = in_words(problem, key(one.record.DESCRIPTOR.name))
    return in_file(type(problem), str(one.source), one.refused(said.violations), done=done)


@asynccontextmanager
async def calling(common: Common) -> AsyncIterator[Muster]:
    """A client whose refusals name the options of the verb, not the fields of the API."""
    async with common.muster() as muster:
        try:
            yield muster
        except MusterError as problem:
            raise in_words(problem, option) from None


def given_quota(pool: str, gpus: str, limit: str | None, weight: str) -> tenancy_pb2.PoolQuota:
    """A quota from options. Raises InvalidInput."""
    try:
        return pool_quota(pool, gpus, limit=limit, weight=weight)
    except ValueError as problem:
        named, equals, amount = gpus.rpartition("=")
        meant = f"; a node pool is named by an option: {amount} --pool {named}" if equals else ""
        raise InvalidInput(f"{problem}{meant}") from None


def given_quotas(texts: Iterable[str] | None) -> list[tenancy_pb2.PoolQuota]:
    """Quotas as POOL=GPUS. Raises InvalidInput."""
    return [_quota(text) for text in texts or ()]


def changed_parts(
    known: tenancy_pb2.Department | tenancy_pb2.Project,
    description: str | None,
    rank: int | None,
    rules: Iterable[str] | None,
) -> list[str]:
    """Puts options into what is known; the parts that they change. Raises InvalidInput."""
    parts: list[str] = []
    if description is not None:
        known.description = description
        parts.append("description")
    if rank is not None:
        if rank < 0:
            raise InvalidInput(f"--rank {rank}: 0 or more")
        known.rank = rank
        parts.append("rank")
    for text in rules or ():
        _put_rule(known.rules, text)
        parts.append("rules")
    return sorted(set(parts))


def _put_rule(rules: tenancy_pb2.SchedulingRules, text: str) -> None:
    name, _, value = text.partition("=")
    field = RULES.get(name)
    if field is None:
        raise InvalidInput(f"--rule {text}: there are {', '.join(RULES)}")
    if value == "none":
        rules.ClearField(field)  # type: ignore[arg-type]  # one of the message's fields
    elif value.isascii() and value.isdigit():
        setattr(rules, field, int(value))
    else:
        raise InvalidInput(f"--rule {text}: write {name}=SECONDS, or {name}=none")


def _quota(text: str) -> tenancy_pb2.PoolQuota:
    pool, equals, amount = text.rpartition("=")
    try:
        return pool_quota(pool if equals else "default", amount)
    except ValueError as problem:
        raise InvalidInput(f"--quota {text}: {problem}; write POOL=GPUS, such as default=4") from None
