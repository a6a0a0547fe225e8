"""The policies of a test's control plane: read, composed and judged by the engine, kept in memory.

Mounted by control_plane. Holds: a write is done as a whole or refused with every violation; `validate_only` changes
nothing; a verdict is given by the policies that stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import code_pb2

import muster_language as language
from muster.api.v1 import policies_pb2 as api
from muster.api.v1 import policies_pb2_grpc
from muster_policy_engine.documents.document import KINDS, Frame, PolicyDocument, read_policies
from muster_policy_engine.effective import effective_defaults, effective_rules
from muster_policy_engine.judging.judge import Context, judge
from muster_policy_engine.levels import Tenancy, clashes
from muster_policy_engine.policy import Branch, Level, Scope
from tests.support.plane_world import Failure, PlaneService, World, bad_request, error_status
from tests.support.policy_shelf import DEPARTMENTS, compiled, judgement, newer, ref_of


class PolicyPlane(PlaneService, policies_pb2_grpc.PoliciesServiceServicer):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._shelf = world.shelf

    async def ApplyPolicies(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = self._read(asked.texts)
            wrong = [(f"{file}:{one.line}:{one.column}", f"{one.path}: {one.text}") for file, document in found
                     for one in document.violations]  # fmt: skip
            await _refuse(asked_context, code_pb2.INVALID_ARGUMENT, wrong)
            written = [self._next(document, asked) for _, document in found]
            places = [f"{file}:{document.line}" for file, document in found]
            await _refuse(asked_context, code_pb2.FAILED_PRECONDITION, self._against(written, places, asked))
            gone = [one for one in self._of_source(asked) if one.id not in {each.policy.id for each in written}]
            if gone and not written and not asked.allow_empty:
                said = f"the texts hold no policy: all {len(gone)} of {asked.source} would go"
                await _refuse(asked_context, code_pb2.FAILED_PRECONDITION, [("", said)])
            written += [api.WrittenPolicy(policy=newer(one), outcome=api.POLICY_OUTCOME_REMOVED) for one in gone]
            self._write(written, asked.reason, dry=asked.validate_only)
            return api.ApplyPoliciesResponse(policies=written, revision=self._shelf.revision)

        return await self._do("ApplyPolicies", request, context, act)

    async def GetPolicy(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            return api.GetPolicyResponse(policy=await self._found(asked.key, asked_context))

        return await self._do("GetPolicy", request, context, act)

    async def ListPolicies(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            wanted = (asked.workload, asked.scope.level, asked.scope.unit, asked.source)
            found = [
                one
                for one in self._shelf.policies.values()
                if all(each in {"", its} for each, its in zip(
                    wanted, (one.workload, one.scope.level, one.scope.unit, one.source), strict=True
                ))
            ]  # fmt: skip
            start = int(asked.page_token or 0)
            more = str(start + 2) if start + 2 < len(found) else ""
            return api.ListPoliciesResponse(policies=found[start : start + 2], next_page_token=more)

        return await self._do("ListPolicies", request, context, act)

    async def DeletePolicy(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            gone = await self._found(asked.key, asked_context)
            written = api.WrittenPolicy(policy=newer(gone), outcome=api.POLICY_OUTCOME_REMOVED)
            self._write([written], asked.reason, dry=asked.validate_only)
            return api.DeletePolicyResponse(policy=gone, revision=self._shelf.revision)

        return await self._do("DeletePolicy", request, context, act)

    async def ListPolicyVersions(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            policy = await self._found(asked.key, asked_context)
            versions = reversed(self._shelf.versions[policy.id])
            return api.ListPolicyVersionsResponse(policy=policy, versions=versions)

        return await self._do("ListPolicyVersions", request, context, act)

    async def RollbackPolicy(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            policy = await self._found(asked.key, asked_context)
            old = next((one for one in self._shelf.versions[policy.id] if one.version == asked.version), None)
            if old is None:
                await context.abort_with_status(error_status(Failure(code_pb2.NOT_FOUND, "there is no such version")))
                raise AssertionError
            written = api.WrittenPolicy(policy=newer(policy), outcome=api.POLICY_OUTCOME_CHANGED)
            written.policy.document = old.document
            self._write([written], asked.reason, dry=asked.validate_only)
            return api.RollbackPolicyResponse(policy=written, revision=self._shelf.revision)

        return await self._do("RollbackPolicy", request, context, act)

    async def GetEffectivePolicy(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            department = asked.department or DEPARTMENTS.get(asked.project, "")
            composed = self._shelf.composed(KINDS[asked.workload], Branch(asked.cluster, department, asked.project))
            answer = api.GetEffectivePolicyResponse(revision=self._shelf.revision)
            for each in effective_rules(composed) if composed else ():
                answer.rules.add(path=each.path, rule=each.rule, value=each.value, policy=ref_of(each.policy))
            for one in effective_defaults(composed) if composed else ():
                answer.defaults.add(path=one.path, item=one.item, value=one.value, policy=ref_of(one.policy))
            for ignored in composed.ignored if composed else ():
                answer.warnings.append(f"the default of the {ignored.policy.scope} for {ignored.path} does not count")
            return answer

        return await self._do("GetEffectivePolicy", request, context, act)

    async def JudgeWorkloads(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            judgements = [self._judged(draft) for draft in asked.drafts]
            return api.JudgeWorkloadsResponse(judgements=judgements, revision=self._shelf.revision)

        return await self._do("JudgeWorkloads", request, context, act)

    def _judged(self, draft: Any) -> api.Judgement:
        (document,) = language.read(draft.yaml)
        assert document.kind is not None
        project = draft.project or (document.namespace or "").removeprefix("runai-")
        branch = Branch(draft.cluster, DEPARTMENTS.get(project, ""), project)
        composed = self._shelf.composed(document.kind, branch)
        verdict = judge(document.spec, self._shelf.base, composed, Context(cluster=draft.cluster))
        return judgement(verdict, composed, name=document.object_name, project=project, revision=self._shelf.revision)

    def _read(self, texts: Iterable[Any]) -> list[tuple[str, PolicyDocument]]:
        found: list[tuple[str, PolicyDocument]] = []
        for text in texts:
            scope = Scope(Level(text.scope.level or "tenant"), text.scope.unit)
            frame = Frame(KINDS[text.workload], scope, text.name) if text.workload else None
            found += [(text.file or "<text>", document) for document in read_policies(text.text, frame)]
        return found

    def _next(self, document: PolicyDocument, asked: Any) -> api.WrittenPolicy:
        read = document.policy
        assert read is not None
        scope = api.PolicyScope(level=read.scope.level, unit=read.scope.unit)
        known = self._shelf.at(read.kind.word, scope)
        name = read.name or (known.name if known else f"{scope.unit or scope.level}-{read.kind.word}")
        if known is None:
            made = api.Policy(id=self._shelf.fresh_id(), name=name, workload=read.kind.word, scope=scope, version=1)
            made.document, made.source, made.created_by, made.updated_by = document.text, asked.source, "ann", "ann"
            return api.WrittenPolicy(policy=made, outcome=api.POLICY_OUTCOME_CREATED)
        source = asked.source or known.source
        if (known.document, known.name, known.source) == (document.text, name, source):
            return api.WrittenPolicy(policy=known, outcome=api.POLICY_OUTCOME_UNCHANGED)
        made = newer(known)
        made.document, made.name, made.source = document.text, name, source
        return api.WrittenPolicy(policy=made, outcome=api.POLICY_OUTCOME_CHANGED)

    def _against(self, written: list[api.WrittenPolicy], places: list[str], asked: Any) -> list[tuple[str, str]]:
        """What other sources and other levels have against a write."""
        found: list[tuple[str, str]] = []
        standing = {one.key: one for one in self._shelf.compiled()}
        made = [compiled(each.policy) for each in written]
        standing |= {one.key: one for one in made}
        where = dict(zip((one.key for one in made), places, strict=True))
        for each, place in zip(written, places, strict=True):
            known = self._shelf.policies.get(each.policy.id)
            if known and asked.source and known.source not in {"", asked.source} and not asked.take_ownership:
                found.append((place, f"the policy belongs to the source {known.source!r}"))
        against = clashes(made, standing.values(), Tenancy(DEPARTMENTS, {}))
        return found + [(f"{where[clash.policy.key]}: {clash.path}", clash.message) for clash in against]

    def _of_source(self, asked: Any) -> list[api.Policy]:
        return [one for one in self._shelf.policies.values() if asked.prune and one.source == asked.source]

    def _write(self, written: list[api.WrittenPolicy], reason: str, *, dry: bool) -> None:
        if dry:
            return
        self._shelf.revision += 1
        for each in written:
            if each.outcome == api.POLICY_OUTCOME_UNCHANGED:
                continue
            made, gone = each.policy, each.outcome == api.POLICY_OUTCOME_REMOVED
            version = api.PolicyVersion(version=made.version, author="ann", channel="grpc", reason=reason)
            version.at.CopyFrom(Timestamp(seconds=1_795_000_000 + made.version))
            version.source, version.document = made.source, "" if gone else made.document
            self._shelf.versions.setdefault(made.id, []).append(version)
            if gone:
                del self._shelf.policies[made.id]
            else:
                self._shelf.policies[made.id] = made

    async def _found(self, key: api.PolicyKey, context: Any) -> api.Policy:
        found = self._shelf.policies.get(key.id) if key.id else self._shelf.at(key.workload, key.scope)
        if found is None:
            said = f"there is no policy {key.id or key.workload}"
            await context.abort_with_status(error_status(Failure(code_pb2.NOT_FOUND, said)))
            raise AssertionError
        return found


async def _refuse(context: Any, code: int, wrong: list[tuple[str, str]]) -> None:
    if wrong:
        await context.abort_with_status(error_status(Failure(code, wrong[0][1], [bad_request(*wrong)])))
