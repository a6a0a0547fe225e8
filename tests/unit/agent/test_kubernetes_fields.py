"""Every field that the Kubernetes back end honours changes what is made of a workload; each has a sample."""

from __future__ import annotations

from typing import Final

import pytest

from muster_cluster_agent.adapters.kubernetes.support import ALLOWABLE, support_of
from muster_language import Kind, catalogue
from tests.support.kubernetes_samples import IN_THE_ASSIGNMENT, SAMPLES, STYLE, made_of

SUPPORT: Final = support_of(frozenset(ALLOWABLE), STYLE)


def test_every_honoured_field_has_a_sample() -> None:
    assert {*SAMPLES} | IN_THE_ASSIGNMENT == SUPPORT.honoured


@pytest.mark.parametrize("name", SAMPLES)
def test_an_honoured_field_changes_what_is_made(name: str) -> None:
    beside, value = SAMPLES[name]
    assert made_of(**{**beside, name: value}) != made_of(**beside)


def test_fields_that_have_a_default_everywhere_are_not_refused() -> None:
    set_by_default = {row.name for row in catalogue().rows if row.default and row.kinds & {*Kind}}
    assert set_by_default.isdisjoint(SUPPORT.refused)
