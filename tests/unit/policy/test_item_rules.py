"""Rules about items and members: which there may be, what nobody may touch, and what every item gets."""

from __future__ import annotations

from typing import Any

import pytest

from muster_language import LayerName, WorkloadSpec
from muster_policy_engine.documents.document import parse
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, judge
from muster_policy_engine.places import places
from tests.support.tables import in_policies


def spec(kind: int = 2, **fields: Any) -> WorkloadSpec:
    return WorkloadSpec(kind=kind, **{"command": "true", **fields})  # type: ignore[arg-type]


def ports(*given: tuple[str, dict[str, Any]], kind: int = 2) -> WorkloadSpec:
    made = spec(kind)
    for label, members in given:
        made.ports.add(label=label, **members)
    return made


def admitted(own: WorkloadSpec, text: str, base: WorkloadSpec | None = None) -> Admitted:
    verdict = judge(own, base, parse(text), Context())
    assert isinstance(verdict, Admitted), verdict
    return verdict


def refused(own: WorkloadSpec, text: str, base: WorkloadSpec | None = None) -> dict[tuple[str, str], tuple[str, str]]:
    verdict = judge(own, base, parse(text), Context())
    assert isinstance(verdict, Rejected), verdict
    return {(each.path, each.rule): (each.given, each.allowed) for each in verdict.issues}


RESOURCES = """
defaults:
  compute:
    extendedResources:
      instances: [{resource: default/cpu, quantity: "5"}, {resource: default/memory, quantity: 4M}]
      attributes: {quantity: "3"}
rules:
  compute.extendedResources.instances: {locked: [default/cpu]}
"""


def asked(*given: tuple[str, str | None]) -> WorkloadSpec:
    made = spec()
    for resource, quantity in given:
        item = made.extended_resources.add(resource=resource)
        if quantity is not None:
            item.quantity = quantity
    return made


def test_the_worked_example_of_items() -> None:
    own = asked(("added/cpu", None), ("added/memory", "5M"))
    own.extended_resources.add(label="default/memory", deleted=True)
    verdict = admitted(own, RESOURCES)
    assert [(each.label, each.quantity) for each in verdict.effective.extended_resources] == [
        ("default/cpu", "5"),
        ("added/cpu", "3"),
        ("added/memory", "5M"),
    ]
    sources = dict(verdict.sources)
    assert sources["compute.extendedResources.added/cpu"] == LayerName.WORKLOAD
    assert sources["compute.extendedResources.added/cpu.quantity"] == LayerName.TENANT


def test_what_is_locked_stays_as_it_is() -> None:
    admitted(asked(("default/cpu", "5")), RESOURCES)
    locked = ("compute.extendedResources.default/cpu", "locked")
    assert refused(asked(("default/cpu", "6")), RESOURCES) == {locked: ("default/cpu", "as the policy sets it")}
    without = spec()
    without.extended_resources.add(label="default/cpu", deleted=True)
    assert refused(without, RESOURCES) == {locked: ("", "as the policy sets it")}
    assert set(refused(spec(), RESOURCES, base=asked(("default/cpu", "7")))) == {locked}


ADDING = """
defaults: {environmentVariables: {instances: [{name: TEAM, value: vision}]}}
rules: {environmentVariables: {instances: {canAdd: false}}}
"""


def test_what_nobody_may_add() -> None:
    own = spec()
    own.environment.add(label="TEAM", value="other")
    assert admitted(own, ADDING).effective.environment[0].value == "other"
    own.environment.add(label="TOKEN", value="hunter2")
    assert refused(own, ADDING) == {("environmentVariables.TOKEN", "canAdd"): ("TOKEN", "only TEAM")}
    assert set(refused(spec(), ADDING, base=own)) == {("environmentVariables.TOKEN", "canAdd")}


PORTS = """
rules:
  ports:
    attributes:
      container: {min: 30000, max: 32767, step: 2}
      serviceType: {required: true, options: [NodePort, ClusterIP]}
      external: {canEdit: false}
"""


def test_members_of_every_item() -> None:
    own = ports(("a", {"container": 80, "service_type": 1}), ("b", {"container": 30_001, "external": 5}))
    assert refused(own, PORTS) == {
        ("ports.a.container", "min"): ("80", "at least 30000"),
        ("ports.b.container", "step"): ("30001", "steps of 2 from 30000"),
        ("ports.a.serviceType", "options"): ("LoadBalancer", "NodePort, ClusterIP"),
        ("ports.b.serviceType", "required"): ("", "a value"),
        ("ports.b.external", "canEdit"): ("5", "nothing"),
    }
    admitted(ports(("a", {"container": 30_002, "service_type": 3})), PORTS)


FIXED = """
defaults:
  ports:
    instances: [{name: web, container: 8080}]
    attributes: {serviceType: ClusterIP}
rules: {ports: {attributes: {serviceType: {canEdit: false}, container: {canEdit: false}}}}
"""


def test_a_member_that_nobody_may_change_is_what_the_policy_gives() -> None:
    own = ports(("web", {"container": 8080}), ("web", {"container": 8080}))
    del own.ports[1]
    assert admitted(own, FIXED).effective.ports[0].service_type == 3
    admitted(ports(("web", {"container": 8080, "service_type": 3})), FIXED)
    assert refused(ports(("web", {"container": 8081, "service_type": 2})), FIXED) == {
        ("ports.web.container", "canEdit"): ("8081", "8080, as the policy sets it"),
        ("ports.web.serviceType", "canEdit"): ("NodePort", "ClusterIP, as the policy sets it"),
    }


def test_other_names_of_a_member() -> None:
    text = "rules: {ports.attributes.customExternalPort: {required: true}}"
    assert set(refused(ports(("a", {"container": 80})), text)) == {("ports.a.external", "required")}


def test_the_first_port_of_a_service() -> None:
    text = "inference: {rules: {servingPort: {container: {max: 8999}, protocol: {required: true}}}}"
    own = ports(("a", {"container": 9000}), ("b", {"container": 9001}), kind=4)
    assert refused(own, text) == {
        ("ports.a.container", "max"): ("9000", "at most 8999"),
        ("ports.a.protocol", "required"): ("", "a value"),
    }


PROBES = """
defaults: {probes: {readiness: {periodSeconds: 5}}}
rules:
  probes.readiness:
    periodSeconds: {min: 5, canEdit: false}
    timeoutSeconds: {max: 10}
    initialDelaySeconds: {required: true}
"""


def test_members_of_an_object() -> None:
    own = spec()
    own.readiness_probe.timeout_seconds = 11
    own.readiness_probe.period_seconds = 4
    assert refused(own, PROBES) == {
        ("probes.readiness.initialDelaySeconds", "required"): ("", "a value"),
        ("probes.readiness.periodSeconds", "canEdit"): ("4", "5, as the policy sets it"),
        ("probes.readiness.periodSeconds", "min"): ("4", "at least 5"),
        ("probes.readiness.timeoutSeconds", "max"): ("11", "at most 10"),
    }
    own.readiness_probe.Clear()
    own.readiness_probe.initial_delay_seconds = 1
    assert admitted(own, PROBES).effective.readiness_probe.period_seconds == 5


def gang(**fields: Any) -> WorkloadSpec:
    return spec(3, framework=2, workers=2, **fields)


SIDES = """
distributed:
  defaults: {worker.image: workers, master.image: masters}
  rules:
    worker.compute.cpuCoreRequest: {max: 8}
    master: {compute.cpuCoreRequest: {max: 2}, compute.cpuMemoryRequest: {required: true}}
    backoffLimit: {max: 3}
"""


def test_workers_and_master_have_rules_of_their_own() -> None:
    own = gang(cpu="4", backoff_limit=1)
    assert admitted(own, SIDES).effective.image == "workers"
    assert not admitted(own, SIDES).effective.HasField("master_spec")
    own.master_spec.args = "x"
    assert refused(own, SIDES) == {
        ("masterSpec.compute.cpuCoreRequest", "max"): ("4", "at most 2"),
        ("masterSpec.compute.cpuMemoryRequest", "required"): ("", "a value"),
    }
    own.master_spec.cpu = "1"
    own.master_spec.memory = "1Gi"
    assert admitted(own, SIDES).effective.master_spec.image == "masters"


def test_rules_for_both_are_said_once_of_each() -> None:
    own = gang(cpu="9")
    own.master_spec.args = "x"
    assert set(refused(own, "rules: {compute.cpuCoreRequest: {max: 8}}")) == {("compute.cpuCoreRequest", "max")}
    own.master_spec.ports.add(label="p", container=80)
    text = "rules: {ports.attributes.container: {min: 1024}, ports.instances: {canAdd: false}}"
    assert set(refused(own, text)) == {("masterSpec.ports.p.container", "min"), ("masterSpec.ports.p", "canAdd")}


@pytest.mark.parametrize("path", ["command", "worker.command", "master.command", "ports.attributes.container"])
def test_every_place_has_rules(path: str) -> None:
    assert places()[path].rules >= {"canEdit", "required"}


def test_no_secret_is_written_out() -> None:
    masked = [place for place in places().values() if place.value.sensitive]
    assert masked == []  # a policy has no path for a credential
    own = spec()
    own.environment.add(label="TOKEN", value="hunter2")
    text = "rules: {environmentVariables.instances: {canAdd: false, locked: [TOKEN]}}"
    assert "hunter2" not in str(refused(own, text))


def linked(*given: tuple[str, str]) -> WorkloadSpec:
    made = spec()
    for label, url in given:
        made.related_urls.add(label=label, url=url, type="wandb")
    return made


def test_a_link_is_ruled_by_the_name_that_its_user_gave() -> None:
    required = "rules: {relatedUrls.attributes.name: {required: true}}"
    admitted(linked(("run", "https://example.org")), required)
    [(path, rule)] = refused(linked(("", "https://example.org")), required)
    assert (path.startswith("relatedUrls.r-"), rule) == (True, "required")
    options = "rules: {relatedUrls.attributes.name: {options: [run, board]}}"
    admitted(linked(("run", "https://example.org")), options)
    assert refused(linked(("other", "https://example.org")), options) == {
        ("relatedUrls.other.name", "options"): ("other", "run, board")
    }


def test_every_path_of_the_tables_takes_its_rules() -> None:
    words = {"canEdit": "true", "required": "true", "canAdd": "true", "locked": "[]"}
    for path, place in places().items():
        for rule in place.rules & set(words):
            assert parse(f"rules:\n  {path}: {{{rule}: {words[rule]}}}").name == "default"
    assert set(in_policies()) <= set(places())
