"""What an error tells of rows that no broker has taken: which partitions they are for, and who leads these."""

from __future__ import annotations

import json

import pytest

from tpc.sinks.kafka.worker.transaction import waiting_for


def statistics(**counts: int) -> str:
    nothing = {"leader": 2, "msgq_cnt": 0, "xmit_msgq_cnt": 0, "msgs_inflight": 0}
    partitions = {"-1": {**nothing, "leader": -1, "msgq_cnt": 9}, "0": nothing, "1": {**nothing, **counts}}
    return json.dumps({"topics": {"rows": {"partitions": partitions}}})


@pytest.mark.parametrize("where", ["msgq_cnt", "xmit_msgq_cnt", "msgs_inflight"])
def test_rows_that_wait_are_told_by_partition_and_broker_wherever_they_are(where: str) -> None:
    assert waiting_for(statistics(**{where: 3})) == " for rows/1 (broker 2)"


def test_a_partition_without_a_leader_is_told_as_one() -> None:
    assert waiting_for(statistics(msgq_cnt=1, leader=-1)) == " for rows/1 (no leader is known)"


@pytest.mark.parametrize("told", [None, statistics()], ids=["no statistics", "nothing waits"])
def test_nothing_is_told_where_nothing_is_known(told: str | None) -> None:
    assert waiting_for(told) == ""
