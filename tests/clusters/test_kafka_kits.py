"""The whole conformance kits of both Kafka sinks on a broker whose transactions are ended the older way."""

from __future__ import annotations

import pytest

from tests.clusters.kit_run import passed_in
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.servers.jars import fetch
from tpc.chaos.servers.kafka_versions import OLDER

SUITE = "The kits on Kafka 3.9"

pytestmark = [pytest.mark.stack, pytest.mark.clusters]


@pytest.mark.parametrize("kit", ["test_conformance.py", "test_offsets_conformance.py"])
def test_the_kit_passes_on_a_broker_of_kafka_3_9(kit: str) -> None:
    try:
        fetch("kafka-3.9", OLDER)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Kafka 3.9: {error}")
    assert passed_in(f"tests/sinks/kafka/{kit}", {"KIT_KAFKA": "3.9"}) > 80
