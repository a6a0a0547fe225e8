"""What the rpc files share: who calls, which workload is meant, which part of a list."""

from __future__ import annotations

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import caller
from muster_chassis.text import clean
from muster_kernel.ids import is_uuid
from muster_submission.adapters.reading import Reading
from muster_submission.domain.access import Verb
from muster_submission.domain.cursors import BadToken, page_size, read_number, read_page_token
from muster_submission.domain.filtering import BadFilter, read
from muster_submission.domain.filters import Filter
from muster_submission.domain.terms import Term
from muster_submission.errors import BadQuestion, NoSuchWorkload
from muster_submission.handlers.access import Rights
from muster_submission.rpc.naming import name_others

_LONGEST = 500


def owner() -> wl.Owner:
    """The caller as the owner of what the call makes."""
    who = caller()
    return wl.Owner(
        issuer=clean(who.issuer, _LONGEST),
        subject=clean(who.subject, _LONGEST),
        groups=[clean(group, _LONGEST) for group in who.groups],
    )


async def find(reading: Reading, ref: api.WorkloadRef, rights: Rights, verb: Verb = Verb.WORKLOADS_READ) -> wl.Workload:
    """The workload that is meant, with which the caller may do that.

    Raises BadQuestion, NoSuchWorkload (also for one that the caller may not see) and PermissionDenied.
    """
    if ref.id:
        found = await reading.by_id(checked_id(ref.id))
        what = f"workload {ref.id}"
    else:
        if not ref.project or not ref.name:
            raise BadQuestion("which workload is meant? give its id, or its project and its name")
        named = "\x00" not in ref.project and "\x00" not in ref.name
        found = await reading.by_name(ref.project, ref.name) if named else None
        what = f"workload {ref.name!r} of project {ref.project!r}"
    absent = NoSuchWorkload(f"{what} does not exist; `muster list` shows what does")
    if found is None:
        raise absent
    rights.require(verb, project=found.project, absent=absent)
    await name_others(reading, [found], rights.projects(Verb.WORKLOADS_READ))
    return found


def checked_id(text: str) -> str:
    """A workload's id. Raises BadQuestion."""
    if not is_uuid(text):
        raise BadQuestion(
            f"{clean(text, 80)!r} is no workload id: expected a UUID in lower case, or a project and a name"
        )
    return text


async def filter_of(reading: Reading, asked: api.WorkloadFilter, rights: Rights) -> Filter:
    """A filter as a value, within what the caller may see. Raises BadQuestion."""
    for text in (asked.project, asked.name_prefix):
        if "\x00" in text:
            raise BadQuestion("a filter holds a NUL character; no name has one")
    terms: tuple[Term, ...] = ()
    if asked.filter_by:
        try:
            terms = read(
                asked.filter_by,
                (await reading.directory.now(clusters="clusterId" in "".join(asked.filter_by))).places(),
            )
        except BadFilter as error:
            raise BadQuestion(clean(str(error), _LONGEST)) from error
    return Filter(
        project=asked.project,
        phases=frozenset(int(one) for one in asked.phases),
        kinds=frozenset(int(one) for one in asked.kinds),
        name_prefix=asked.name_prefix,
        include_deleted=asked.include_deleted,
        scope=rights.projects(Verb.WORKLOADS_READ),
        terms=terms,
        said=tuple(asked.filter_by),
    )


def number_of(after: str) -> int:
    """The number of the row after which a page of numbered rows begins; 0 for the first page. Raises BadQuestion."""
    try:
        return read_number(after) if after else 0
    except BadToken as error:
        raise BadQuestion(str(error)) from error


def page_of(size: int, token: str, bound: bytes) -> tuple[int, str]:
    """How many rows, and after which. Raises BadQuestion."""
    try:
        return page_size(size), read_page_token(token, bound)
    except BadToken as error:
        raise BadQuestion(str(error)) from error
