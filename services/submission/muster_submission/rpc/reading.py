"""What the rpc files share: who calls, which workload is meant, which part of a list."""

from __future__ import annotations

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import caller
from muster_chassis.text import clean
from muster_kernel.ids import is_uuid
from muster_submission.adapters.reading import Reading
from muster_submission.domain.cursors import BadToken, page_size, read_page_token
from muster_submission.domain.filters import Filter
from muster_submission.errors import BadQuestion, NoSuchWorkload

_LONGEST = 500


def owner() -> wl.Owner:
    """The caller as the owner of what the call makes."""
    who = caller()
    return wl.Owner(
        issuer=clean(who.issuer, _LONGEST),
        subject=clean(who.subject, _LONGEST),
        groups=[clean(group, _LONGEST) for group in who.groups],
    )


async def find(reading: Reading, ref: api.WorkloadRef) -> wl.Workload:
    """The workload that is meant. Raises BadQuestion and NoSuchWorkload."""
    if ref.id:
        found = await reading.by_id(checked_id(ref.id))
        what = f"workload {ref.id}"
    else:
        if not ref.project or not ref.name:
            raise BadQuestion("which workload is meant? give its id, or its project and its name")
        named = "\x00" not in ref.project and "\x00" not in ref.name
        found = await reading.by_name(ref.project, ref.name) if named else None
        what = f"workload {ref.name!r} of project {ref.project!r}"
    if found is None:
        raise NoSuchWorkload(f"{what} does not exist; `muster list` shows what does")
    return found


def checked_id(text: str) -> str:
    """A workload's id. Raises BadQuestion."""
    if not is_uuid(text):
        raise BadQuestion(
            f"{clean(text, 80)!r} is no workload id: expected a UUID in lower case, or a project and a name"
        )
    return text


def filter_of(asked: api.WorkloadFilter) -> Filter:
    """A filter as a value. Raises BadQuestion."""
    for text in (asked.project, asked.name_prefix):
        if "\x00" in text:
            raise BadQuestion("a filter holds a NUL character; no name has one")
    return Filter(
        project=asked.project,
        phases=frozenset(int(one) for one in asked.phases),
        kinds=frozenset(int(one) for one in asked.kinds),
        name_prefix=asked.name_prefix,
        include_deleted=asked.include_deleted,
    )


def page_of(size: int, token: str, bound: bytes) -> tuple[int, str]:
    """How many rows, and after which. Raises BadQuestion."""
    try:
        return page_size(size), read_page_token(token, bound)
    except BadToken as error:
        raise BadQuestion(str(error)) from error
