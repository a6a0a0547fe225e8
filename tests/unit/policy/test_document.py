"""The policy document: what it may say, and how it says what is wrong."""

from __future__ import annotations

from decimal import Decimal

import pytest

from muster_language import Kind
from muster_policy_engine.documents.document import BadDocument, parse
from muster_policy_engine.policy import NO_POLICY, Options, Rules

DOCUMENT = """
name: house
defaults:
  compute: {cpuCoreRequest: "100m"}
  compute.cpuMemoryRequest: 1Gi
  nodePools: [a, b]
  environmentVariables:
    instances:
      - {name: A, value: b}
      - {name: A, value: c}
  ports: {instances: [{name: http, container: 80}]}
rules:
  compute:
    gpuPortionRequest: {max: 0.5, step: 0.25}
    cpuMemoryRequest: {min: 1Gi, max: 4Gi}
  imagePullPolicy: {options: [Always, {value: never, displayed: Never}]}
  nodePools: {required: true}
  backoffLimit: {required: true, max: 5}
  numWorkers: {max: 8}
training:
  defaults: {backoffLimit: 3}
  rules: {backoffLimit: {canEdit: false, max: 4}}
"""


def test_defaults_and_rules_by_kind() -> None:
    policy = parse(DOCUMENT)
    assert (policy.name, policy.scope, policy.text) == ("house", "tenant", DOCUMENT)
    training, inference = policy.section(Kind.TRAINING), policy.section(Kind.INFERENCE)
    assert (training.defaults.cpu, training.defaults.memory, training.defaults.backoff_limit) == ("100m", "1Gi", 3)
    assert list(training.defaults.node_pools.values) == ["a", "b"]
    assert [(each.label, each.value) for each in training.defaults.environment] == [("A", "c")]
    assert [(each.label, each.container) for each in training.defaults.ports] == [("http", 80)]
    assert not inference.defaults.HasField("backoff_limit")
    rules = {each.place.path: each.rules for each in training.rules}
    limit = rules["backoffLimit"]
    assert (limit.required, limit.can_edit) == (True, False)
    assert limit.maximum is not None
    assert (limit.maximum.amount, limit.maximum.text) == (Decimal(4), "4")
    memory = rules["compute.cpuMemoryRequest"]
    assert memory.minimum is not None
    assert memory.minimum.amount == 1 << 30
    assert rules["imagePullPolicy"].options == Options((1, 3), ("Always", "never"))
    assert "numWorkers" not in rules
    assert "backoffLimit" not in {each.place.path for each in inference.rules}


@pytest.mark.parametrize("text", ["", "{}", "defaults: {}\nrules: {}", "# nothing\n---\n", "rules:\n  compute:\n"])
def test_a_document_may_be_empty(text: str) -> None:
    policy = parse(text, name="stack")
    assert policy.name == "stack"
    assert all(not policy.section(kind).rules for kind in Kind)


def test_another_text_is_another_version() -> None:
    assert parse("rules: {}").version != parse("rules: {} ").version
    assert NO_POLICY.section(Kind.TRAINING).rules == ()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [", "this is not YAML"),
        ("[]", "1:1: : a mapping belongs here"),
        ("a: b\n---\nc: d", "a policy file has one document"),
        ("rule: {}", "rule: unknown; did you mean rules?"),
        ("name: [a]", "the name of the policy is not a word"),
        ("train: {}", "did you mean training?"),
        ("rules: []", "rules: a mapping of paths belongs here"),
        ("rules: {comput: {}}", "rules.comput: unknown path"),
        ("rules: {numWorker: {max: 1}}", "rules.numWorker: unknown path; did you mean numWorkers?"),
        ("rules: {numWorkers: {mx: 1}}", "rules.numWorkers.mx: unknown; did you mean max?"),
        ("rules: {numWorkers: [1]}", "rules.numWorkers: a mapping belongs here"),
        ("rules: {numWorkers: {options: [1]}}", "rules.numWorkers.options: unknown"),
        ("rules: {numWorkers: {max: many}}", "rules.numWorkers.max: many is not a value of numWorkers"),
        ("rules: {numWorkers: {max: nan}}", "nan is not a value of numWorkers"),
        ("rules: {numWorkers: {max: [1]}}", "rules.numWorkers.max: a number belongs here"),
        ("rules: {numWorkers: {step: 0}}", "rules.numWorkers.step: 0 is no step"),
        ("rules: {numWorkers: {min: 3, max: 2}}", "min 3 is above max 2"),
        ("rules: {compute: {cpuCoreRequest: {max: 1G}}}", "1G is not a value of compute.cpuCoreRequest"),
        ("rules: {image: {required: maybe}}", "rules.image.required: maybe is neither true nor false"),
        ("rules: {image: {options: a}}", "rules.image.options: a list of values belongs here"),
        ("rules: {image: {options: []}}", "a list of values belongs here"),
        ("rules: {image: {options: [{a: b}]}}", "rules.image.options.0: a value belongs here"),
        ("rules: {imagePullPolicy: {options: [Some]}}", "Some is not known"),
        ("defaults: {backoffLimit: x}", "defaults.backoffLimit: x is not a whole number"),
        ("defaults: {backoffLimit: 5000}", "defaults.backoffLimit: 5000 is too large"),
        ("defaults: {compute: {gpuPortionRequest: 1.5}}", "1.5 is not a GPU request"),
        ("defaults: {nodePools: ['a b']}", "a b is not a name"),
        ("defaults: {environmentVariables: [a]}", "a mapping of paths belongs here"),
        ("defaults: {environmentVariables: {instances: a}}", "a list of items belongs here"),
        ("defaults: {environmentVariables: {instances: [{nam: a}]}}", "nam: unknown; did you mean name?"),
        ("defaults: {environmentVariables: {instances: [{name: a}]}}", "the item has no value"),
        ("rules: {ports.instances: {max: 1}}", "rules.ports.instances.max: unknown"),
        ("rules: {ports: {instances: {locked: a}}}", "rules.ports.instances.locked: a list of labels belongs here"),
        ("rules: {ports: {attributes: {container: {options: [1]}}}}", "container.options: unknown"),
        ("rules: {ports: {attributes: {zzz: {min: 1}}}}", "rules.ports.attributes.zzz: unknown path"),
        ("defaults: {ports: {attributes: {container: 70000}}}", "70000 is too large"),
        ("defaults: {ports: {instances: [{name: [], container: 1}]}}", "a label belongs here"),
        ("defaults: {storage: {nfs: {instances: [{name: n, mountPath: data}]}}}", "is not"),
        ("defaults: {servingPort.container: 80}", "servingPort.container takes no default"),
        ("training: {rules: {worker.image: {required: true}}}", "a TrainingWorkload does not take worker.image"),
        ("inference: {rules: {numWorkers: {max: 3}}}", "a InferenceWorkload does not take numWorkers"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, error: str) -> None:
    with pytest.raises(BadDocument) as caught:
        parse(text)
    assert error in str(caught.value)


def test_the_higher_rules_lie_over_the_lower() -> None:
    low, high = Rules(required=True, options=Options(("a",), ("a",)), locked=("x",)), Rules(required=False)
    assert high.over(low) == Rules(required=False, options=Options(("a",), ("a",)), locked=("x",))
