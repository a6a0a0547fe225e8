"""CEL for many projects: who used up the budget of processor time waits among others like him.

Two child processes answer. A question of a project and rule within their budgets goes to the quick one; a question
beyond them goes to the slow one. So a heavy rule delays only rules that are heavy too, and those of its own project.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from muster_chassis import metrics
from muster_submission.adapters.expressions import CelProcess
from muster_submission.domain.budgets import Budgets
from muster_submission.domain.expressions import Answer, Question, Schema

PROJECT_SECONDS: Final = 1.0
"""Processor time that a project's expressions may take at once."""
RULE_SECONDS: Final = 0.5
"""Processor time that one rule's expressions may take at once."""
REFILL: Final = 0.03
"""Seconds of either budget that come back in a second."""

QUESTIONS: Final = metrics.counter(
    "muster_trigger_questions_total",
    unit="questions",
    meaning="CEL questions by the process that answered: quick, or slow for projects and rules beyond their budget.",
    action="slow grows: `muster triggers list` of the projects that send many events; simplify their expressions.",
    labels=("process",),
)


class ExpressionLanes:
    """The port `Expressions`, over a quick and a slow child process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._quick = CelProcess()
        self._slow = CelProcess()
        self._clock = clock
        self._projects = Budgets(PROJECT_SECONDS, REFILL)
        self._rules = Budgets(RULE_SECONDS, REFILL)

    async def evaluate(self, question: Question, project: str, rule: str) -> Answer:
        """The values of a rule's expressions over an event."""
        return await self._process(project, rule).evaluate(question, self._meter(project, rule))

    async def check(
        self, expressions: Mapping[str, str], schema: Schema | None, project: str, rule: str
    ) -> Mapping[str, str]:
        """What is wrong with expressions, by key."""
        return await self._process(project, rule).check(expressions, schema, self._meter(project, rule))

    async def close(self) -> None:
        """Ends both children."""
        await asyncio.gather(self._quick.close(), self._slow.close())

    def _process(self, project: str, rule: str) -> CelProcess:
        now = self._clock()
        beyond = self._projects.exhausted(project, now) or self._rules.exhausted((project, rule), now)
        QUESTIONS.labels("slow" if beyond else "quick").inc()
        return self._slow if beyond else self._quick

    def _meter(self, project: str, rule: str) -> Callable[[float], None]:
        def spend(seconds: float) -> None:
            now = self._clock()
            self._projects.charge(project, seconds, now)
            self._rules.charge((project, rule), seconds, now)

        return spend
