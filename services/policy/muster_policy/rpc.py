"""PoliciesService: the policies, what holds where, and what they would say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from muster.api.v1 import policies_pb2 as pb
from muster.api.v1 import policies_pb2_grpc
from muster.events.v1.policy_pb2 import WorkloadAdmitted
from muster_chassis import identity
from muster_chassis.database import Database
from muster_chassis.errors import Violation
from muster_chassis.rpc import Service, service
from muster_chassis.rpc.idempotency import once
from muster_chassis.unit import Unit
from muster_policy.adapters.herald import policy_ref, verdict_of
from muster_policy.adapters.wire import changed_to, document_lines, kind_of_word, policy_of, reach_of, scope_of
from muster_policy.domain.changes import Given, Wanted
from muster_policy.domain.standing import Key, Standing, UnreadablePolicy
from muster_policy.errors import BadDocuments, InvalidArgument, NoSuchPolicy, NoSuchUnit, UnknownNamespace, Unreadable
from muster_policy.handlers.judging import Judging
from muster_policy.handlers.standing import Loading
from muster_policy.handlers.writing import Done, Writing, found_by
from muster_policy.ports import Books, PolicyStore, Submission
from muster_policy_engine.documents.document import Frame, read_policies
from muster_policy_engine.effective import effective_defaults, effective_rules
from muster_policy_engine.policy import Branch, Level, Scope

_MOST_JUDGED: Final = 100
_MOST_DOCUMENTS: Final = 1_000
_MOST_TEXT: Final = 1 << 20  # characters of one text
_PAGE: Final = 50
_MOST_PAGE: Final = 500
_LONGEST_REASON: Final = 500
_Projects = Callable[[str], str | None]
"""The project of a namespace."""
_V1: Final = "apiVersion"
_HEARD_SECONDS: Final = 2.0  # in which policy has heard of a new project, unless Kafka is away
_HEARD_AGAIN_SECONDS: Final = 0.1


class Policies(policies_pb2_grpc.PoliciesServiceServicer):
    """The servicer."""

    def __init__(
        self,
        database: Database,
        loading: Loading,
        judging: Judging,
        writing: Writing,
        store: PolicyStore,
        books: Books,
    ) -> None:
        self._database = database
        self._loading = loading
        self._judging = judging
        self._writing = writing
        self._store = store
        self._books = books

    async def ApplyPolicies(self, request: pb.ApplyPoliciesRequest, context: Any) -> pb.ApplyPoliciesResponse:
        """Makes and changes policies, all of the call or none."""
        until = asyncio.get_running_loop().time() + _HEARD_SECONDS
        while True:
            try:
                namespaces = await self._namespaces(request.texts)
                wanted = _wanted(request, namespaces.get)

                async def work(unit: Unit, wanted: Wanted = wanted) -> pb.ApplyPoliciesResponse:
                    done = await self._writing.apply(
                        unit, wanted, request.author.channel, request.reason, dry=request.validate_only
                    )
                    return pb.ApplyPoliciesResponse(policies=self._written(done), revision=done.revision)

                if request.validate_only:
                    async with self._database.unit() as unit:
                        return await work(unit)
                return await once(self._database, "ApplyPolicies", request, pb.ApplyPoliciesResponse, work)
            except (NoSuchUnit, UnknownNamespace):
                # A project that was made a moment ago is known to submission first.
                if asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(_HEARD_AGAIN_SECONDS)

    async def _namespaces(self, texts: Sequence[pb.PolicyText]) -> Mapping[str, str]:
        """The project of each namespace, where a document of v1 may name one."""
        if not any(_V1 in text.text for text in texts):
            return {}
        async with self._database.unit() as unit:
            return (await self._books.tenancy(unit)).namespaces()

    async def DeletePolicy(self, request: pb.DeletePolicyRequest, context: Any) -> pb.DeletePolicyResponse:
        """Removes a policy."""
        key = _key(request.key)
        wanted = Wanted(
            [],
            request.author.subject,
            identity.now(),
            [],
            reach_of(request.author.reach),
            expected=request.expected_version,
        )

        async def work(unit: Unit) -> pb.DeletePolicyResponse:
            done = await self._writing.remove(
                unit, key, wanted, request.author.channel, _reason(request.reason), dry=request.validate_only
            )
            return pb.DeletePolicyResponse(policy=policy_of(done.changes[0].row), revision=done.revision)

        if request.validate_only:
            async with self._database.unit() as unit:
                return await work(unit)
        return await once(self._database, "DeletePolicy", request, pb.DeletePolicyResponse, work)

    async def RollbackPolicy(self, request: pb.RollbackPolicyRequest, context: Any) -> pb.RollbackPolicyResponse:
        """Writes the text of an older version as a new one."""
        key, reason = _key(request.key), _reason(request.reason) or f"back to version {request.version}"

        async def work(unit: Unit) -> pb.RollbackPolicyResponse:
            standing = found_by(await self._loading.taken(unit), key)
            versions = await self._store.versions(unit, standing.row.id)
            old = next((each.row for each in versions if each.row.version == request.version), None)
            if old is None or old.gone:
                raise NoSuchPolicy(f"{standing.row.name} of version {request.version}")
            text = pb.PolicyText(text=old.document, file=f"version {request.version}")
            asked = pb.ApplyPoliciesRequest(texts=[text], author=request.author)
            wanted = _wanted(asked, lambda _: standing.row.scope.unit or None)
            done = await self._writing.apply(unit, wanted, request.author.channel, reason, dry=request.validate_only)
            return pb.RollbackPolicyResponse(policy=self._written(done)[0], revision=done.revision)

        if request.validate_only:
            async with self._database.unit() as unit:
                return await work(unit)
        return await once(self._database, "RollbackPolicy", request, pb.RollbackPolicyResponse, work)

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Any) -> pb.GetPolicyResponse:
        """One policy."""
        key = _key(request.key)
        async with self._database.unit() as unit:
            shelf = await self._loading.seen(unit)
        return pb.GetPolicyResponse(policy=_shown(found_by(shelf, key)))

    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Any) -> pb.ListPoliciesResponse:
        """The policies, by kind of workload and scope."""
        size = request.page_size or _PAGE
        if size > _MOST_PAGE:
            raise _bad("page_size", f"{size} is too large; 1 to {_MOST_PAGE} are allowed")
        if not request.page_token.isdecimal() and request.page_token:
            raise _bad("page_token", "this is no page token of ours; leave it out for the first page")
        async with self._database.unit() as unit:
            shelf = await self._loading.seen(unit)
        found = [each for each in shelf.all() if _is_asked(each, request)]
        first = int(request.page_token or 0)
        page = found[first : first + size]
        following = str(first + size) if first + size < len(found) else ""
        return pb.ListPoliciesResponse(
            policies=[_shown(each) for each in page], next_page_token=following, revision=shelf.revision
        )

    async def ListPolicyVersions(
        self, request: pb.ListPolicyVersionsRequest, context: Any
    ) -> pb.ListPolicyVersionsResponse:
        """The versions of a policy, the newest first."""
        key = _key(request.key)
        async with self._database.unit() as unit:
            shelf = await self._loading.seen(unit)
            policy = key if isinstance(key, str) else found_by(shelf, key).row.id
            versions = await self._store.versions(unit, policy)
        if not versions:
            raise NoSuchPolicy(policy)
        return pb.ListPolicyVersionsResponse(
            policy=policy_of(versions[0].row), versions=[changed_to(each) for each in versions]
        )

    async def GetEffectivePolicy(
        self, request: pb.GetEffectivePolicyRequest, context: Any
    ) -> pb.GetEffectivePolicyResponse:
        """What holds for a kind of workload at a place."""
        kind = kind_of_word(request.workload)
        async with self._database.unit() as unit:
            shelf = await self._loading.seen(unit)
            branch = await self._branch(unit, request)
        try:
            composed = shelf.composed(kind, branch)
        except UnreadablePolicy as error:
            raise Unreadable(error) from error
        answer = pb.GetEffectivePolicyResponse(revision=shelf.revision)
        if composed is None:
            return answer
        answer.policies.extend(policy_ref(each) for each in composed.policies)
        for rule in effective_rules(composed):
            answer.rules.add(path=rule.path, rule=rule.rule, value=rule.value, policy=policy_ref(rule.policy))
        for default in effective_defaults(composed):
            answer.defaults.add(
                path=default.path, item=default.item, value=default.value, policy=policy_ref(default.policy)
            )
        for each in composed.ignored:
            answer.warnings.append(
                f"the default of the {each.policy.scope} for {each.path} does not count: "
                f"the policy of the {each.by.scope} does not allow a change of it"
            )
        return answer

    async def _branch(self, unit: Unit, request: pb.GetEffectivePolicyRequest) -> Branch:
        directory = await self._books.tenancy(unit)
        if not request.project:
            if request.department and request.department not in directory.departments:
                raise NoSuchUnit(Scope(Level.DEPARTMENT, request.department))
            return Branch(request.cluster, request.department)
        project = directory.projects.get(request.project)
        if project is None:
            raise NoSuchUnit(Scope(Level.PROJECT, request.project))
        return Branch(request.cluster or project.home_cluster, project.department, project.name)

    async def JudgeWorkloads(self, request: pb.JudgeWorkloadsRequest, context: Any) -> pb.JudgeWorkloadsResponse:
        """The verdicts about workloads that nobody made, in order."""
        if not 1 <= len(request.submitted) <= _MOST_JUDGED:
            said = f"{len(request.submitted)} workloads are asked about; 1 to {_MOST_JUDGED} are allowed"
            raise _bad("submitted", said)
        submissions = [Submission(each) for each in request.submitted]
        try:
            async with self._database.unit() as unit:
                judged = await self._judging.consider(unit, submissions)
        except UnreadablePolicy as error:
            raise Unreadable(error) from error
        answer = pb.JudgeWorkloadsResponse(revision=judged[0].revision)
        for submission, each in zip(submissions, judged, strict=True):
            match verdict_of(submission, each):
                case WorkloadAdmitted() as admitted:
                    answer.judgements.add(admitted=admitted)
                case rejected:
                    answer.judgements.add(rejected=rejected)
        return answer

    def _written(self, done: Done) -> list[pb.WrittenPolicy]:
        outcomes = pb.PolicyOutcome
        return [
            pb.WrittenPolicy(policy=policy_of(each.row), outcome=outcomes.Value(f"POLICY_OUTCOME_{each.outcome.name}"))
            for each in done.changes
        ]


def _shown(standing: Standing) -> pb.Policy:
    shown = policy_of(standing.row)
    if standing.policy is None:
        shown.warnings.append(f"this release cannot read it, so nothing is judged below it: {standing.unreadable}")
    return shown


def _is_asked(standing: Standing, request: pb.ListPoliciesRequest) -> bool:
    row = standing.row
    return (
        request.workload in {"", row.kind.word}
        and request.scope.level in {"", row.scope.level}
        and request.scope.unit in {"", row.scope.unit}
        and request.source in {"", row.source}
    )


def _wanted(request: pb.ApplyPoliciesRequest, projects: _Projects) -> Wanted:
    """The write that a request means. projects: of namespaces. Raises BadDocuments and InvalidArgument."""
    if request.prune and not request.source:
        raise _bad("source", "prune removes what one source has applied, so the source has to be named")
    given = list(_given(request.texts, projects))
    if not given and not request.prune:
        raise BadDocuments([])
    if len(given) > _MOST_DOCUMENTS:
        raise _bad("texts", f"the call has {len(given)} documents; {_MOST_DOCUMENTS} are allowed")
    if request.expected_version and len(given) != 1:
        raise _bad("expected_version", "a version can be expected of one policy alone")
    return Wanted(
        given,
        request.author.subject,
        identity.now(),
        [identity.event_id() for _ in given],
        reach_of(request.author.reach),
        source=request.source,
        prune=request.prune,
        allow_empty=request.allow_empty,
        take_ownership=request.take_ownership,
        expected=request.expected_version,
    )


def _given(texts: Sequence[pb.PolicyText], projects: _Projects) -> Iterator[Given]:
    """The documents of the texts. Raises BadDocuments with the errors of all of them."""
    found: list[Given] = []
    wrong: list[Violation] = []
    first: dict[Key, str] = {}
    unknown: list[str] = []

    def project_of(namespace: str) -> str | None:
        found = projects(namespace)
        if found is None:
            unknown.append(namespace)
        return found

    for number, text in enumerate(texts):
        name = text.file or f"texts[{number}]"
        if len(text.text) > _MOST_TEXT:
            wrong.append(Violation(name, f"the text has {len(text.text)} characters; {_MOST_TEXT} are allowed"))
            continue
        for document in read_policies(text.text, _frame(text), project_of):
            where = f"{name}:{document.line}"
            wrong.extend(document_lines(name, document))
            if document.policy is None:
                continue
            known = first.setdefault(document.policy.key, where)
            if known != where:
                said = (
                    f"the {document.policy.kind.word} policy of the {document.policy.scope} stands twice: also {known}"
                )
                wrong.append(Violation(where, said))
            found.append(Given(document, where))
    if wrong:
        raise (UnknownNamespace if unknown else BadDocuments)(wrong)
    yield from found


def _frame(text: pb.PolicyText) -> Frame | None:
    if not text.workload:
        return None
    return Frame(kind_of_word(text.workload), scope_of(text.scope), text.name)


def _key(key: pb.PolicyKey) -> str | Key:
    if key.id:
        return key.id
    return kind_of_word(key.workload), scope_of(key.scope)


def _reason(text: str) -> str:
    if len(text) > _LONGEST_REASON:
        raise _bad("reason", f"it has {len(text)} characters; {_LONGEST_REASON} are allowed")
    return text


def _bad(field: str, said: str) -> InvalidArgument:
    return InvalidArgument(said, violations=[Violation(field, said)])


def policies_service(servicer: Policies) -> Service:
    """What the composition root mounts."""
    return service(
        pb.DESCRIPTOR.services_by_name["PoliciesService"],
        policies_pb2_grpc.add_PoliciesServiceServicer_to_server,
        servicer,
    )
