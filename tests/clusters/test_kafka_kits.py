"""The whole conformance kits of both Kafka sinks on brokers whose transactions are ended the older way."""

from __future__ import annotations

import pytest

from tests.clusters.kit_run import passed_in
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.servers.jars import fetch
from tpc.chaos.servers.kafka_versions import OLDER

SUITE = "The kits on Kafka 3.9"
KITS = [f"tests/sinks/kafka/{kit}.py" for kit in ("test_conformance", "test_offsets_conformance")]

pytestmark = [pytest.mark.stack, pytest.mark.clusters]


def test_the_kits_of_both_sinks_pass_on_brokers_of_kafka_3_9() -> None:
    try:
        fetch("kafka-3.9", OLDER)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Kafka 3.9: {error}")
    assert passed_in(*KITS, environment={"KIT_KAFKA": "3.9"}) > 200
