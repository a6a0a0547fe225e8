"""What the caller of this very call may do: asked once a call, then a value that answers every question about it.

Called at the head of every method of every channel. Holds: a caller without bindings may do nothing; where
authentication is switched off everyone is `local` and may do everything; a refusal never tells that something hidden
exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from muster_chassis.errors import NotFound, PermissionDenied, ServiceError, Unauthenticated
from muster_chassis.rpc import LOCAL, Caller
from muster_submission.access_ports import AccessBooks
from muster_submission.domain.access import EVERYTHING, Answer, Grants, Place, Verb
from muster_submission.domain.bindings import State

TRIGGER: Final = "trigger"
"""The channel of a caller for whom a rule acts."""
_REMEMBERED: Final = 10_000


Note = Callable[[Caller, Verb, Place, Answer], None]


def _nobody_listens(_who: Caller, _verb: Verb, _place: Place, _answer: Answer) -> None:
    return


class Rights:
    """What one caller may do, for the length of one call."""

    def __init__(self, who: Caller, grants: Grants, note: Note = _nobody_listens) -> None:
        """note: hears of every refusal, for the audit."""
        self.who = who
        self.grants = grants
        self._note = note

    def require(
        self,
        verb: Verb,
        *,
        project: str = "",
        department: str = "",
        cluster: str = "",
        absent: ServiceError | None = None,
    ) -> None:
        """Raises where the verb is not allowed there; with nothing named it has to be allowed in the whole tenant.

        absent: the very error of the method where the thing does not exist, so that hidden things look the same.
        Raises PermissionDenied where the caller may see what is there, NotFound (or `absent`) where not.
        """
        self.require_at(verb, Place(project, department, cluster), absent)

    def require_at(self, verb: Verb, place: Place, absent: ServiceError | None = None) -> None:
        """`require`, for a place as a value."""
        match self.grants.judge(verb, place):
            case Answer.FORBIDDEN:
                raise PermissionDenied(self._refused(verb, place, Answer.FORBIDDEN), metadata={"verb": verb})
            case Answer.HIDDEN:
                self._refused(verb, place, Answer.HIDDEN)
                raise absent or NotFound(f"{_named(place)} does not exist")
            case Answer.ALLOWED:
                return

    def judge(self, verb: Verb, *, project: str = "", department: str = "", cluster: str = "") -> Answer:
        """Whether the verb is allowed there, as a value, for calls that answer for many; refusals are noted too."""
        place = Place(project, department, cluster)
        answer = self.grants.judge(verb, place)
        if answer is not Answer.ALLOWED:
            self._refused(verb, place, answer)
        return answer

    def refusal(self, verb: Verb, *, project: str = "", department: str = "", cluster: str = "") -> str:
        """The sentence for a verb that is FORBIDDEN there."""
        return _denied(self.who, verb, Place(project, department, cluster))

    def allows(self, verb: Verb, *, project: str = "", department: str = "", cluster: str = "") -> bool:
        """Whether the verb is allowed there; with nothing named: in the whole tenant."""
        return self.allows_at(verb, Place(project, department, cluster))

    def allows_at(self, verb: Verb, place: Place) -> bool:
        """`allows`, for a place as a value."""
        return self.grants.judge(verb, place) is Answer.ALLOWED

    def anywhere(self, verb: Verb) -> bool:
        """Whether there is a place where the verb is allowed: enough for what everyone shares, as global templates."""
        return self.grants.reach(verb).anywhere

    def projects(self, verb: Verb) -> frozenset[str] | None:
        """The projects in which the verb is allowed, for a condition of SQL; None: all."""
        return self.grants.projects(verb)

    def departments(self, verb: Verb) -> frozenset[str] | None:
        """The departments in which the verb is allowed; None: all."""
        return self.grants.departments(verb)

    def clusters(self, verb: Verb) -> frozenset[str] | None:
        """The clusters at which the verb is allowed; None: all."""
        return self.grants.clusters(verb)

    def _refused(self, verb: Verb, place: Place, answer: Answer) -> str:
        self._note(self.who, verb, place, answer)
        return _denied(self.who, verb, place)


class Access:
    """Looks rights up. What is in the books counts within half a second, on every instance."""

    def __init__(
        self,
        books: AccessBooks,
        *,
        own_issuer: str = "",
        everyone_is_admin: bool = False,
        note: Note = _nobody_listens,
    ) -> None:
        """own_issuer: the issuer of applications' tokens.

        everyone_is_admin: authentication is switched off, and `local` is everyone who sends no token.
        """
        self._books = books
        self._own_issuer = own_issuer
        self._note = note
        self._everyone_is_admin = everyone_is_admin
        self._known: dict[Caller, Grants] = {}
        self._at = -1

    async def rights(self, who: Caller) -> Rights:
        """The rights of a caller. Raises Unauthenticated where an application was revoked since its token was made."""
        if who == LOCAL:
            return Rights(who, self._of_local(), self._note)
        state = await self._books.state()
        if state.version != self._at or len(self._known) >= _REMEMBERED:
            self._known.clear()
            self._at = state.version
        known = self._known.get(who)
        if known is None:
            known = self._known[who] = _grants(state, who)
        return Rights(who, known, self._note)

    async def of_application(self, application: str) -> Rights:
        """The rights of an application that acts without a token, as a trigger's identity. Raises Unauthenticated."""
        state = await self._books.state()
        # -1: no secret has that version, so that one that is gone is refused as a revoked one is.
        return await self.rights(Caller(application, credential=state.credentials.get(application, -1)))

    async def of_recorded(self, subject: str, groups: Sequence[str], issuer: str) -> Rights:
        """The rights that a caller who was written down has now. Raises Unauthenticated for one that was revoked."""
        if issuer and issuer == self._own_issuer:
            return await self.of_application(subject)
        return await self.rights(Caller(subject, tuple(groups), issuer, channel=TRIGGER))

    def _of_local(self) -> Grants:
        if not self._everyone_is_admin:
            # A way in that forgot to ask for a token must lead nowhere.
            raise Unauthenticated("this call came without a token; set MUSTER_TOKEN, or log in as an application")
        return EVERYTHING


def _grants(state: State, who: Caller) -> Grants:
    if who.credential is None:
        return state.of_person(who.subject, who.groups, who.issuer)
    grants = state.of_application(who.subject, who.credential)
    if grants is None:
        raise Unauthenticated(f"application {who.subject} was revoked or has a new secret: ask for a new token")
    return grants


def _denied(who: Caller, verb: Verb, place: Place) -> str:
    where = f"in {_named(place)}" if place.named else "in the whole tenant"
    return (
        f"{who.subject} may not do {verb} {where}; `muster access whoami` shows what you may, an administrator of "
        f"{'it' if place.named else 'the tenant'} can grant more"
    )


def _named(place: Place) -> str:
    if place.project:
        return f"project {place.project!r}"
    return f"department {place.department!r}" if place.department else f"cluster {place.cluster!r}"
