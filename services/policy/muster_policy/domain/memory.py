"""Remembers verdicts about equal questions.

Called by the handlers. A hundred workloads of one bulk call differ in their names alone, and a verdict does not depend
on a name: so the name is left out of the question and laid into the answer by its publisher.
Holds: the question has all that the verdict depends on, the versions of the branch's policies included; the memory is
bounded, the least recently asked goes first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster_language import WorkloadSpec
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.clusters import judge_everywhere
from muster_policy_engine.judging.judge import Context, Verdict

REMEMBERED: Final = 2_000
_Question = tuple[bytes, bytes | None, Context, tuple[tuple[str, int], ...]]
_NO_OTHERS: Final[Mapping[str, Composed]] = MappingProxyType({})


class Memory:
    """Verdicts that were given."""

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._said: OrderedDict[_Question, Verdict] = OrderedDict()

    def judge(
        self,
        own: WorkloadSpec,
        base: WorkloadSpec | None,
        composed: Composed | None,
        context: Context,
        others: Mapping[str, Composed] = _NO_OTHERS,
    ) -> tuple[Verdict, str]:
        """The verdict, with the digest of everything that it depends on. The verdict is shared: not to be changed.

        others: what holds in each cluster with a policy of its own, where none was asked for.
        """
        nameless = WorkloadSpec()
        nameless.CopyFrom(own)
        nameless.ClearField("name")
        nameless.ClearField("name_prefix")
        below = base.SerializeToString(deterministic=True) if base is not None else None
        branches = [composed] if composed is not None else []
        policies = [(each.id, each.version) for branch in branches for each in branch.policies]
        policies += [(each.id, each.version) for _, there in sorted(others.items()) for each in there.policies]
        question = (nameless.SerializeToString(deterministic=True), below, context, tuple(policies))
        verdict = self._said.get(question)
        if verdict is None:
            verdict = judge_everywhere(nameless, base, composed, others, context)
            self._said[question] = verdict
            if len(self._said) > self._remembered:
                self._said.popitem(last=False)
        else:
            self._said.move_to_end(question)
        return verdict, _digest(question)


def _digest(question: _Question) -> str:
    own, below, context, policies = question
    digest = hashlib.sha256()
    around = "\0".join((*context.node_pools, "rest" if context.rest else "", context.cluster)).encode()
    names = "\0".join(f"{policy}@{version}" for policy, version in policies).encode()
    for part in (own, below or b"-", around, names):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:32]
