"""Addresses outside the cluster: which ones a workload gets, and what is made for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workload.v1 import workload_pb2
from muster_cluster_agent.domain.kubernetes import ingresses, workload_objects
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.resources import INGRESS, SERVICE
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan
from muster_kernel import ids
from tests.support.kubernetes_pods import OWNER
from tests.support.kubernetes_samples import plans_of

URLS = Urls("lab.example", "nginx", tls=True, reserved=("login.lab.example",))
BASE = f"w-{ids.digest('33333333-3333-4333-8333-333333333333')}"


def exposed(*items: workload_pb2.ExposedUrl, **fields: Any) -> ReplicaPlan:
    return plans_of(exposed_urls=items, **fields)[0]


def item(label: str = "web", container: int = 8080, url: str = "", **fields: Any) -> workload_pb2.ExposedUrl:
    return workload_pb2.ExposedUrl(label=label, container=container, url=url, **fields)


def test_an_address_is_made_of_workload_and_project_and_leads_to_the_port() -> None:
    plan = exposed(item())
    (ingress,) = ingresses.ingresses_of(OWNER, plan, URLS)
    assert ingress["metadata"]["name"] == f"{BASE}-url-web"
    assert ingress["spec"] == {
        "ingressClassName": "nginx",
        "tls": [{"hosts": ["bert-p.lab.example"]}],
        "rules": [
            {
                "host": "bert-p.lab.example",
                "http": {
                    "paths": [
                        {
                            "path": "/",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "bert", "port": {"name": "p-8080"}}},
                        }
                    ]
                },
            }
        ],
    }
    assert workload_objects.addresses_of(plan, URLS)[0] == "https://bert-p.lab.example"
    objects = workload_objects.objects_of(OWNER, plan, URLS)
    (service,) = [made for resource, made in objects if resource is SERVICE]
    assert [port["name"] for port in service["spec"]["ports"]] == ["p-8080"], "a port that is only exposed is served"
    assert [resource for resource, _ in objects][-1] is INGRESS


def test_a_second_address_has_its_port_in_its_name() -> None:
    plan = exposed(item(), item("board", 6006), item("own", 9090, "https://own.lab.example/a/b"))
    assert [ingresses.text_of(each, URLS) for each in ingresses.addresses_of(plan, URLS)] == [
        "https://bert-p.lab.example",
        "https://bert-6006-p.lab.example",
        "https://own.lab.example/a/b",
    ]


def test_one_port_has_one_made_up_address_and_no_address_is_there_twice() -> None:
    assert len(ingresses.addresses_of(exposed(item(), item("again")), URLS)) == 1
    twice = exposed(item(url="https://a.lab.example/x"), item("b", 9090, "https://a.lab.example/x"))
    with pytest.raises(InvalidCommand, match=r"names a\.lab\.example/x twice"):
        ingresses.addresses_of(twice, URLS)


def test_users_of_an_address_are_not_forgotten_where_the_file_has_changed() -> None:
    names = workload_pb2.StringList(values=["ann"])
    with pytest.raises(InvalidCommand, match="checks no authorizedUsers"):
        ingresses.addresses_of(exposed(item(authorized_users=names)), URLS)
    with pytest.raises(InvalidCommand, match="checks no authorizedGroups"):
        ingresses.addresses_of(exposed(item(authorized_groups=names)), URLS)


def test_a_private_service_and_a_cluster_without_a_domain_have_none() -> None:
    private = exposed(item(), is_private_service_url=True)
    assert ingresses.addresses_of(private, URLS) == ()
    (service,) = workload_objects.services_of(OWNER, private)
    assert [port["port"] for port in service["spec"]["ports"]] == [8080], "it is reached inside the cluster"
    assert ingresses.addresses_of(exposed(item()), Urls()) == ()
    assert ingresses.addresses_of(exposed(item(deleted=True)), URLS) == ()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://bank.example", "not below lab.example"),
        ("https://lab.example", "not below lab.example"),
        ("https://evillab.example", "not below lab.example"),
        ("https://*.lab.example", "not below lab.example"),
        ("https://a..lab.example", "not below lab.example"),
        ("https://a.lab.example:8443", "without a port"),
        ("https://a.lab.example:99999", "which is no address"),
        ("https://a.lab.example/?x=1", "without a port and a query"),
        ("https://a.lab.example/{}", "letters, digits and"),
        ("https://a.lab.example//b;", "letters, digits and"),
        ("http://a.lab.example", "answers by https alone"),
        ("https://[.]", "which is no address"),
        ("https://login.lab.example", "login.lab.example is reserved"),
    ],
)
def test_an_address_that_the_cluster_cannot_give_is_refused(url: str, words: str) -> None:
    with pytest.raises(InvalidCommand, match=words):
        ingresses.addresses_of(exposed(item(url=url)), URLS)


@given(workload=st.text(min_size=1, max_size=63), project=st.text(min_size=1, max_size=63), port=st.integers(1, 65535))
def test_every_name_makes_a_host(workload: str, project: str, port: int) -> None:
    plan = replace(exposed(item(), item("b", port)), workload=workload, project=project)
    for address in ingresses.addresses_of(plan, URLS):
        label, _, domain = address.host.partition(".")
        assert domain == "lab.example"
        assert 0 < len(label) <= 63
        assert label == label.encode("ascii").decode().lower().strip("-")


def test_who_may_open_it_reaches_the_gateway_as_part_of_an_address() -> None:
    urls = Urls("lab.example", annotations=(("auth", "https://auth/?u={users}&g={groups}"), ("other", "x")))
    users = workload_pb2.StringList(values=["ann@example.org", "bob&g=admins\n"])
    (ingress,) = ingresses.ingresses_of(OWNER, exposed(item(authorized_users=users)), urls)
    assert ingress["metadata"]["annotations"] == {
        "auth": "https://auth/?u=ann@example.org,bob%26g%3Dadmins%0A&g=",
        "other": "x",
    }
    assert (urls.knows(ingresses.USERS), urls.knows(ingresses.GROUPS)) == (True, True)


def test_an_ingress_is_changed_where_it_leads_elsewhere() -> None:
    (asked,) = ingresses.ingresses_of(OWNER, exposed(item()), URLS)
    (other,) = ingresses.ingresses_of(OWNER, exposed(item(container=9090)), URLS)
    there = {**asked, "metadata": {**asked["metadata"], "annotations": {"by": "others"}}, "status": {}}
    assert workload_objects.change_of(INGRESS, asked, there) is None
    change = workload_objects.change_of(INGRESS, other, there)
    assert change is not None
    assert change["spec"] == other["spec"]
    (plain,) = ingresses.ingresses_of(OWNER, exposed(item()), Urls("lab.example", "nginx"))
    change = workload_objects.change_of(INGRESS, plain, there)
    assert change is not None
    assert change["spec"]["tls"] is None, "a merge patch takes out what is null"
    assert ingresses.hosts_of(there) == {"bert-p.lab.example"}
    assert ingresses.hosts_of({"spec": {"defaultBackend": {}}}) == frozenset()
