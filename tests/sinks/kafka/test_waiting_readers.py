"""Who waits for an open Kafka transaction, until when, and whether it was ever prepared: from its description alone."""

from __future__ import annotations

import pytest

from tpc.sinks.kafka.cluster.answers import Description, Reply
from tpc.sinks.kafka.driver.waiting_readers import readers_waiting

GROUPS = ("__consumer_offsets", 7)


def described(*partitions: tuple[str, int], state: str = "Ongoing") -> Description:
    return Description("id", state, 1, 0, 900_000, 1_800_000_000_000, frozenset(partitions))


def test_readers_of_its_partitions_wait_until_its_timeout() -> None:
    found = readers_waiting({"id": described(("orders", 1), ("orders", 0), GROUPS)}, {"id": 6}, sees_groups=True)["id"]
    assert str(found) == (
        "readers of orders/0, orders/1 with isolation.level=read_committed wait for it until 2027-01-15T08:15:00Z, "
        "when its system aborts it by itself"
    )


@pytest.mark.parametrize(
    ("partitions", "sees_groups", "may_be_decided"),
    [
        ([("orders", 0), GROUPS], True, True),
        ([("orders", 0)], True, False),
        ([("orders", 0)], False, True),
        ([], False, True),
    ],
    ids=["with its marker", "without", "groups not shown", "nothing shown"],
)
def test_one_without_its_marker_was_never_prepared(
    partitions: list[tuple[str, int]], sees_groups: bool, may_be_decided: bool
) -> None:
    found = readers_waiting({"id": described(*partitions)}, {"id": 6}, sees_groups=sees_groups)["id"]
    assert found.may_be_decided is may_be_decided
    assert ("was never prepared" in str(found)) is not may_be_decided


@pytest.mark.parametrize("answer", [Reply("TRANSACTIONAL_ID_NOT_FOUND"), described(state="CompleteAbort")])
def test_for_one_that_has_ended_nobody_waits(answer: Description | Reply) -> None:
    assert readers_waiting({"id": answer}, {}, sees_groups=True) == {}


def test_many_partitions_are_counted() -> None:
    who = readers_waiting({"id": described(*(("t", n) for n in range(9)))}, {"id": 6}, sees_groups=True)["id"].who
    assert "and 4 more partitions" in who
