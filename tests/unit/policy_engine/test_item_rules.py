"""Rules about items and members: which there may be, which stay as they are, and what every item gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster_language import Kind, LayerName, WorkloadSpec
from muster_policy_engine.composing import Composed, compose
from muster_policy_engine.judging.judge import Admitted, judge
from muster_policy_engine.places import places
from muster_policy_engine.policy import Ruled, Rules
from tests.support.policy_engine import PLAIN, RESEARCH, TENANT, VISION, admitted, policy, refused, spec

ADD = "the administrator prohibited adding new items"
EDIT = "the administrator prohibited changing the value of this field"
AS_SET = "as the policy sets it"


def ports(*given: tuple[str, dict[str, Any]], kind: int = 2) -> WorkloadSpec:
    made = spec(kind)
    del made.ports[:]
    for label, members in given:
        made.ports.add(label=label, **members)
    return made


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


def test_the_worked_example_of_layers_of_items() -> None:
    policy = """
defaults:
  ports.instances: [{name: a, external: 30100, container: 8080}, {name: b, external: 30101, container: 8081}]
"""
    base = ports(("a", {"external": 30100, "container": 8100}), ("team", {"external": 30111, "container": 8111}))
    own = ports(("b", {"deleted": True}), ("mine", {"external": 30222, "container": 8222}))
    effective = admitted(own, policy, base=base).effective
    assert [(port.label, port.external, port.container) for port in effective.ports] == [
        ("a", 30100, 8100),
        ("team", 30111, 8111),
        ("mine", 30222, 8222),
    ]


def test_an_item_is_replaced_whole() -> None:
    policy = "defaults: {ports.instances: [{name: a, external: 30100, container: 8080}]}"
    (port,) = admitted(ports(("a", {"container": 1})), policy).effective.ports
    assert not port.HasField("external")


def test_what_is_locked_stays_as_it_is() -> None:
    admitted(asked(("default/cpu", "5")), RESOURCES)
    key = ("compute.extendedResources", "locked", "default/cpu")
    details = "the administrator prohibited modifying item 'default/cpu'"
    assert refused(asked(("default/cpu", "6")), RESOURCES) == {key: ("default/cpu", AS_SET, details)}
    without = spec()
    without.extended_resources.add(label="default/cpu", deleted=True)
    assert refused(without, RESOURCES) == {key: ("", AS_SET, details)}
    assert set(refused(spec(), RESOURCES, base=asked(("default/cpu", "7")))) == {key}


def test_what_a_template_takes_out_and_the_workload_gives_again_is_not_modified() -> None:
    without = spec()
    without.extended_resources.add(label="default/cpu", deleted=True)
    admitted(asked(("default/cpu", "5")), RESOURCES, base=without)


def test_what_a_lower_policy_takes_out_is_not_taken_out_by_users() -> None:
    levels = (
        (TENANT, "defaults: {labels.instances: [{name: a, value: b}]}"),
        (RESEARCH, "defaults: {labels.instances: [{name: a, exclude: true}]}"),
        (VISION, "rules: {labels.instances: {locked: [a]}}"),
    )
    admitted(spec(), *levels)


ADDING = """
defaults: {environmentVariables: {instances: [{name: TEAM, value: vision}]}}
rules: {environmentVariables: {instances: {canAdd: false}}}
"""


def test_what_may_not_be_added() -> None:
    own = spec()
    own.environment.add(label="TEAM", value="other")
    assert admitted(own, ADDING).effective.environment[0].value == "other"
    own.environment.add(label="TOKEN", value="hunter2")
    wanted = {("environmentVariables", "canAdd", "TOKEN"): ("TOKEN", "only TEAM", ADD)}
    assert refused(own, ADDING) == wanted
    assert refused(spec(), ADDING, base=own) == wanted
    none = "rules: {environmentVariables.instances: {canAdd: false}}"
    assert refused(own, none)["environmentVariables", "canAdd", "TEAM"] == ("TEAM", "none", ADD)


def test_items_that_are_blocked() -> None:
    own = spec()
    own.volumes.add(label="v", path="/x", mount_path="/x")
    details = "the administrator prohibited the use of this field"
    assert refused(own, "rules: {storage.hostPath.instances: {blocked: true}}") == {
        ("storage.hostPath", "blocked", "v"): ("v", "nothing", details)
    }
    admitted(spec(), "rules: {storage.hostPath.instances: {blocked: true}}")


def test_a_volume_of_a_server_is_judged_among_nfs() -> None:
    own = spec()
    own.volumes.add(label="v", path="/x", mount_path="/x", nfs_server="s")
    admitted(own, "rules: {storage.hostPath.instances: {blocked: true}}")
    assert set(
        refused(own, "rules: {storage.nfs: {instances: {canAdd: false}, attributes: {server: {options: [t]}}}}")
    ) == {
        ("storage.nfs", "canAdd", "v"),
        ("storage.nfs.v.server", "options", "v"),
    }


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
    step = "30000 plus a multiple of 2"
    assert refused(own, PORTS) == {
        ("ports.a.container", "min", "a"): ("80", "at least 30000", "value must be no less than 30000"),
        ("ports.b.container", "step", "b"): ("30001", step, f"value must be {step}"),
        ("ports.a.serviceType", "options", "a"): (
            "LoadBalancer",
            "NodePort, ClusterIP",
            "value must be one of: NodePort, ClusterIP",
        ),
        ("ports.b.serviceType", "required", "b"): ("", "a value", "a value is required"),
        ("ports.b.external", "canEdit", "b"): ("5", "nothing", EDIT),
    }
    admitted(ports(("a", {"container": 30_002, "service_type": 3})), PORTS)


FIXED = """
defaults:
  ports:
    instances: [{name: web, container: 8080, external: 30080}]
    attributes: {serviceType: ClusterIP}
rules: {ports: {attributes: {serviceType: {canEdit: false}, container: {canEdit: false}, external: {canEdit: false}}}}
"""


def test_a_member_that_users_may_not_edit_is_what_the_policy_gives() -> None:
    fixed = {"container": 8080, "external": 30_080}
    assert admitted(ports(("web", fixed)), FIXED).effective.ports[0].service_type == 3
    admitted(ports(("web", {**fixed, "service_type": 3})), FIXED)
    assert refused(ports(("web", {"container": 8081, "external": 30_080, "service_type": 2})), FIXED) == {
        ("ports.web.container", "canEdit", "web"): ("8081", "8080", EDIT),
        ("ports.web.serviceType", "canEdit", "web"): ("NodePort", "ClusterIP", EDIT),
    }


def test_a_member_that_is_left_out_of_a_replaced_item_is_edited() -> None:
    assert refused(ports(("web", {"container": 8080})), FIXED) == {
        ("ports.web.external", "canEdit", "web"): ("", "30080", EDIT)
    }


def test_a_member_that_is_blocked() -> None:
    rule = "rules: {ports.attributes.external: {blocked: true}}"
    admitted(ports(("a", {"container": 80})), rule)
    assert set(refused(ports(("a", {"container": 80, "external": 5})), rule)) == {("ports.a.external", "blocked", "a")}


def test_what_is_said_for_all_ports_is_an_edit_of_each() -> None:
    rule = "rules: {ports.attributes.serviceType: {canEdit: false}}"
    own: Any = ports(("a", {"container": 80}))
    own.service_type = 2
    assert set(refused(own, rule)) == {("ports.a.serviceType", "canEdit", "a")}


def test_other_names_of_a_member() -> None:
    required = "{required: true}"
    text = f"rules: {{ports.attributes.customExternalPort: {required}, exposedUrls.attributes.customUrl: {required}}}"
    own = ports(("a", {"container": 80}))
    own.exposed_urls.add(label="u", container=80)
    assert set(refused(own, text)) == {("ports.a.external", "required", "a"), ("exposedUrls.u.url", "required", "u")}


def test_the_first_port_of_a_service() -> None:
    text = "rules: {servingPort: {container: {max: 8999}, protocol: {required: true}}}"
    own = ports(("a", {"container": 9000}), ("b", {"container": 9001}), kind=4)
    assert set(refused(own, text)) == {("ports.a.container", "max", "a"), ("ports.a.protocol", "required", "a")}


def test_two_rules_about_one_member_come_in_one_order() -> None:
    first = "rules: {servingPort.container: {max: 2}, ports.attributes.container: {max: 1}}"
    other = "rules: {ports.attributes.container: {max: 1}, servingPort.container: {max: 2}}"
    assert list(refused(spec(4), first).items()) == list(refused(spec(4), other).items())


PROBES = """
defaults: {probes: {readiness: {periodSeconds: 5}}}
rules:
  probes.readiness:
    periodSeconds: {min: 5, canEdit: false}
    timeoutSeconds: {max: 10}
    initialDelaySeconds: {required: true}
    failureThreshold: {blocked: true}
"""


def test_members_of_an_object() -> None:
    own = spec()
    probe = own.readiness_probe
    probe.timeout_seconds, probe.period_seconds, probe.failure_threshold = 11, 4, 2
    assert set(refused(own, PROBES)) == {
        ("probes.readiness.initialDelaySeconds", "required", ""),
        ("probes.readiness.periodSeconds", "canEdit", ""),
        ("probes.readiness.periodSeconds", "min", ""),
        ("probes.readiness.timeoutSeconds", "max", ""),
        ("probes.readiness.failureThreshold", "blocked", ""),
    }
    probe.Clear()
    probe.initial_delay_seconds = 1
    assert admitted(own, PROBES).effective.readiness_probe.period_seconds == 5


def linked(*given: tuple[str, str]) -> WorkloadSpec:
    made = spec()
    for label, url in given:
        made.related_urls.add(label=label, url=url, type="wandb")
    return made


def test_a_link_is_ruled_by_the_name_that_its_user_gave() -> None:
    required = "rules: {relatedUrls.attributes.name: {required: true}}"
    admitted(linked(("run", "https://example.org")), required)
    [(path, rule, _)] = refused(linked(("", "https://example.org")), required)
    assert (path.startswith("relatedUrls.r-"), rule) == (True, "required")
    options = "rules: {relatedUrls.attributes.name: {options: [run, board]}}"
    admitted(linked(("run", "https://example.org")), options)
    assert refused(linked(("other", "https://example.org")), options)["relatedUrls.other.name", "options", "other"] == (
        "other",
        "run, board",
        "value must be one of: run, board",
    )


def test_no_secret_is_written_out() -> None:
    assert [place for kind in Kind for place in places(kind).values() if place.value.sensitive] == []
    own = spec()
    own.environment.add(label="TOKEN", value="hunter2")
    found = refused(own, "rules: {environmentVariables.instances: {canAdd: false, locked: [TOKEN]}}")
    assert "hunter2" not in str(found)


def halves(rules: Rules) -> Composed:
    """The rules of v1 that no v2 document says: an item that may be changed but not taken out, or the reverse."""
    whole = policy("defaults: {labels.instances: [{name: a, value: b}]}\nrules: {labels.instances: {canAdd: true}}")
    ruled = whole.body.rules["labels.instances"]
    body = replace(whole.body, rules={"labels.instances": Ruled(ruled.place, rules)})
    return compose(Kind.TRAINING, [replace(whole, body=body)])


def test_the_two_halves_of_locked() -> None:
    gone, changed = spec(), spec()
    gone.labels.add(label="a", deleted=True)
    changed.labels.add(label="a", value="c")
    kept, fixed = halves(Rules(kept=("a",))), halves(Rules(fixed=("a",)))
    assert isinstance(judge(changed, None, kept, PLAIN), Admitted)
    assert isinstance(judge(gone, None, fixed, PLAIN), Admitted)
    found = [judge(gone, None, kept, PLAIN), judge(changed, None, fixed, PLAIN)]
    assert [(each.path, each.rule, each.details) for verdict in found for each in getattr(verdict, "issues", ())] == [
        ("labels", "canRemove", "the administrator prohibited removing item 'a'"),
        ("labels", "canEdit", "the administrator prohibited modifying item 'a'"),
    ]


def test_the_items_that_a_refusal_offers_are_in_one_order() -> None:
    labels = "rules: {labels.instances: {canAdd: false}}"
    for given in ("[{name: a, value: x}, {name: b, value: x}]", "[{name: b, value: x}, {name: a, value: x}]"):
        own = spec()
        own.labels.add(label="c", value="x")
        found = refused(own, f"defaults: {{labels.instances: {given}}}\n{labels}")
        assert found["labels", "canAdd", "c"][1] == "only a, b"
