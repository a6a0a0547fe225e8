"""The warning about topics that were created while fewer brokers ran."""

from __future__ import annotations

from structlog.testing import capture_logs

from muster_chassis.topic_admin import warn_of_few


def test_topics_with_fewer_replicas_than_new_ones_are_named() -> None:
    with capture_logs() as logged:
        warn_of_few({"muster.one": 1, "muster.three": 3}, 3)
    (line,) = logged
    assert (line["log_level"], line["topics"], line["wanted"]) == ("warning", {"muster.one": 1}, 3)


def test_a_single_broker_is_no_reason_to_warn() -> None:
    with capture_logs() as logged:
        warn_of_few({"muster.one": 1}, 1)
    assert logged == []
