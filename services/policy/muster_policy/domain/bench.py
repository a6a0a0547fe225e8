"""The bench: judges with the policy in force, and remembers what it said about equal questions.

Called by the handlers. A hundred workloads of one bulk call differ in their names alone, and a verdict does not depend
on a name: so the name is left out of the question and laid into the answer by whoever publishes it.
Holds: a change of policy forgets everything; the memory is bounded, the least recently asked goes first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from muster_language import WorkloadSpec
from muster_policy_engine.judging.judge import Context, Verdict, judge
from muster_policy_engine.policy import NO_POLICY, Policy

REMEMBERED: Final = 2_000

Question = tuple[bytes, bytes | None, Context]


class Bench:
    """One policy and the verdicts given under it."""

    def __init__(self, policy: Policy = NO_POLICY, *, remembered: int = REMEMBERED) -> None:
        self._policy = policy
        self._remembered = remembered
        self._said: OrderedDict[Question, Verdict] = OrderedDict()

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    def replace(self, policy: Policy) -> None:
        """Puts another policy in force."""
        self._policy = policy
        self._said.clear()

    def judge(self, own: WorkloadSpec, base: WorkloadSpec | None, context: Context) -> tuple[Verdict, str]:
        """The verdict, with the digest of everything that it depends on. The verdict is shared: not to be changed."""
        nameless = WorkloadSpec()
        nameless.CopyFrom(own)
        nameless.ClearField("name")
        nameless.ClearField("name_prefix")
        below = base.SerializeToString(deterministic=True) if base is not None else None
        question = (nameless.SerializeToString(deterministic=True), below, context)
        verdict = self._said.get(question)
        if verdict is None:
            verdict = judge(nameless, base, self._policy, context)
            self._said[question] = verdict
            if len(self._said) > self._remembered:
                self._said.popitem(last=False)
        else:
            self._said.move_to_end(question)
        return verdict, self._digest(question)

    def _digest(self, question: Question) -> str:
        own, below, context = question
        digest = hashlib.sha256(self._policy.version.encode())
        around = "\0".join((*context.node_pools, "rest" if context.rest else "", context.cluster)).encode()
        for part in (own, below or b"-", around):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()[:32]
