"""Policies as text: what is written is read back as the same policy."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.documents.writing import write_policy
from muster_policy_engine.policy import Policy
from tests.support import policies_v1
from tests.support.policy_document_drawings import v2_documents


def policy(text: str) -> Policy:
    """The policy of a v2 document."""
    (found,) = read_policies(text)
    assert found.violations == []
    assert found.policy is not None
    return found.policy


@given(v2_documents())
def test_reading_what_was_written_gives_the_same_policy(text: str) -> None:
    (found,) = read_policies(text)
    assume(found.policy is not None)
    assert found.policy is not None
    written = write_policy(found.policy)
    assert policy(written) == found.policy
    assert write_policy(policy(written)) == written


TEXT = """kind: Policy
name: research
workload: training
scope:
  department: research
policy:
  defaults:
    compute:
      cpuCoreRequest: '1'
    environmentVariables:
      instances:
      - name: HF_HOME
        value: /models
      - name: GONE
        exclude: true
    ports:
      attributes:
        serviceType: ClusterIP
  rules:
    compute:
      gpuDevicesRequest:
        max: 8
        step: 1
      cpuCoreRequest:
        defaultFrom:
          field: compute.cpuCoreLimit
          factor: 0.5
    storage:
      hostPath:
        instances:
          blocked: true
    imagePullPolicy:
      options:
      - Always
      - value: IfNotPresent
        displayed: If not present
  reserved:
    rules:
    - security
    defaults:
    - nodePools
"""


def test_the_text_is_nested_and_in_order() -> None:
    assert write_policy(policy(TEXT)) == TEXT


def test_paths_have_dots_where_nesting_would_change_the_order() -> None:
    text = (
        "kind: Policy\nworkload: training\nscope: tenant\npolicy:\n"
        "  defaults:\n    compute:\n      gpuDevicesRequest: 1\n    image: x\n    compute.cpuCoreRequest: '1'\n"
    )
    assert write_policy(policy(text)) == text


def test_an_empty_policy() -> None:
    text = "kind: Policy\nworkload: inference\nscope: tenant\npolicy: {}\n"
    assert write_policy(policy(text)) == text


def test_a_policy_of_v1_is_not_written() -> None:
    with pytest.raises(ValueError, match="convert it to v2"):
        write_policy(policies_v1.policy("cpu: {value: 1}"))
