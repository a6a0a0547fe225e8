"""Who may use which topic follows from the catalogue: an agent reaches its own cluster only, outsiders one topic."""

from __future__ import annotations

import pytest

from muster_chassis import acls
from muster_chassis.acls import Operation, Resource
from muster_chassis.topics import AGENTS, FIXED, OUTSIDE, SERVICES, TRIGGERS, named


def _topics(rules: list[acls.Acl], operation: Operation) -> set[str]:
    return {rule.name for rule in rules if rule.resource is Resource.TOPIC and rule.operation is operation}


def test_writers_and_readers_of_every_topic_are_known_roles() -> None:
    for topic in FIXED:
        assert set(topic.writers) <= {*SERVICES, AGENTS, OUTSIDE}
        assert set(topic.readers) <= {*SERVICES, AGENTS}
        assert topic.writers


def test_an_agent_reads_its_assignments_and_writes_its_reports_samples_and_dead_letters() -> None:
    rules = acls.of_agent("north")
    assert _topics(rules, Operation.READ) == {"muster.clusters.north.assignments"}
    assert _topics(rules, Operation.WRITE) == {
        "muster.clusters.north.reports",
        "muster.samples",
        "muster.dead-letters",
    }
    assert {rule.resource for rule in rules} == {Resource.TOPIC}
    assert {rule.user for rule in rules} == {"agent-north"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_writes_exactly_what_names_it_as_writer(service: str) -> None:
    fixed = {topic.name for topic in FIXED}
    rules = acls.of_service(service)
    assert _topics(rules, Operation.WRITE) & fixed == {t.name for t in FIXED if service in t.writers}
    read = {t.name for t in FIXED if service in t.readers or t.writers == (service,)}
    assert _topics(rules, Operation.READ) & fixed == read
    assert _topics(rules, Operation.CREATE) & fixed == {t.name for t in FIXED if t.owner == service}
    beyond = {rule.name for rule in rules if rule.resource is Resource.TOPIC} - fixed
    assert beyond == ({"muster.clusters."} if service == "scheduler" else set())


def test_a_program_outside_writes_triggers_and_reads_nothing() -> None:
    assert [(rule.name, rule.operation) for rule in acls.of_producer("producer-etl", TRIGGERS)] == [
        ("muster.triggers", Operation.WRITE)
    ]
    with pytest.raises(ValueError, match=r"only Muster writes muster\.decisions; programs outside .* muster\.triggers"):
        acls.of_producer("producer-etl", named("muster.decisions"))


def test_what_is_no_service_has_no_rules() -> None:
    with pytest.raises(ValueError, match="'console' is not a service"):
        acls.of_service("console")
