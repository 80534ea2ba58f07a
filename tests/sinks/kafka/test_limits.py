"""What `tpc doctor` is told by a Kafka cluster: how long it keeps what a stopped pipeline comes back to."""

from __future__ import annotations

import pytest

from tests.support.kafka_branches import Branches
from tests.support.kafka_topics import KafkaTopics
from tpc.findings import Diagnosed, Finding, Level
from tpc.sinks.kafka.cluster.doctor_findings import doctor_findings
from tpc.sinks.kafka.sink import KafkaSink

DEFAULTS = {
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
    "offsets.retention.minutes": "10080",
}


def told(timeout_s: float | None = None, *, endtxn_version: int = 5, **changed: str) -> dict[str, Finding]:
    broker = DEFAULTS | {name.replace("_", "."): value for name, value in changed.items()}
    return {finding.about: finding for finding in doctor_findings(broker, timeout_s, endtxn_version)}


def test_a_broker_as_it_comes_aborts_prepared_branches_too_soon() -> None:
    found = told()
    assert {about: finding.level for about, finding in found.items()} == {
        "transaction.max.timeout.ms": Level.WARNING,
        "transactional.id.expiration.ms": Level.OK,
        "offsets.retention.minutes": Level.OK,
    }
    assert found["transaction.max.timeout.ms"].seen == "900000 ms = 15 minutes"


def test_a_timeout_of_the_sink_is_what_counts() -> None:
    found = told(60.0, transaction_max_timeout_ms="86400000")["transaction.max.timeout.ms"]
    assert (found.level, found.seen) == (Level.WARNING, "86400000 ms = 24 hours; the sink asks for 60 s")
    assert found.remedy.startswith("raise transaction_timeout_s: ")
    assert "on the brokers and transaction_timeout_s" in told(60.0)["transaction.max.timeout.ms"].remedy


def test_a_timeout_beyond_the_broker_s_is_a_problem() -> None:
    assert told(901.0)["transaction.max.timeout.ms"].level is Level.PROBLEM


def test_what_is_forgotten_within_a_day_is_a_warning() -> None:
    found = told(transactional_id_expiration_ms="3600000", offsets_retention_minutes="60")
    assert found["transactional.id.expiration.ms"].level is Level.WARNING
    assert found["offsets.retention.minutes"].level is Level.WARNING


@pytest.mark.parametrize("version", [3, 4])
def test_on_older_brokers_markers_must_be_kept_for_longer_than_ids(version: int) -> None:
    found = told(endtxn_version=version)["offsets.retention.minutes"]
    assert (found.level, found.seen) == (Level.WARNING, "10080 minutes = 7 days")
    assert found.needed == "more than transactional.id.expiration.ms (7 days) on brokers before 4.0"
    longer = told(endtxn_version=version, offsets_retention_minutes="10081")
    assert longer["offsets.retention.minutes"].level is Level.OK


def test_a_retention_below_a_day_is_told_as_that_on_older_brokers_too() -> None:
    found = told(endtxn_version=3, offsets_retention_minutes="60")["offsets.retention.minutes"]
    assert found.needed.startswith("more than your longest stop")


def test_a_cluster_is_asked_for_its_own(kafka: KafkaTopics) -> None:
    branches = Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))
    assert isinstance(branches.committer, Diagnosed)
    assert {finding.about for finding in branches.committer.findings(branches.context())} == set(DEFAULTS)
    branches.committer.close()
