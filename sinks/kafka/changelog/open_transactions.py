"""Which transactions hold up the readers of a topic, for people: by whom, where, and what ends them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from tpc.errors import TpcError, TransientError
from tpc.sinks.kafka.cluster.answers import Description
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings

_ALL = ".*"


def held_up(
    topic: str, partitions: Iterable[int], what: str, connection: ConnectionSettings, timeout_s: float
) -> TransientError:
    """The error for readers of `topic` that come no further in `partitions`; `what` says who they are."""
    where = sorted(partitions)
    try:
        found = _open_in(topic, set(where), connection, timeout_s)
    except TpcError as error:
        by = f"by whom is not known: {error.what}"
    else:
        by = (
            "; ".join(map(_in_words, found))
            or "by one of an id that this user may not see, or that no coordinator knows"
        )
    return TransientError(
        f"{what} topic {topic!r} in partitions {where}: a transaction is open there ({by})",
        remedy="nothing was changed; once it has ended, start again. One whose name begins with 'tpc~' ends when the "
        "pipeline in its name starts (`tpc orphans` for one that never will), another one with its writer or its "
        f"timeout; else kafka-transactions.sh abort --topic {topic} --partition NUMBER --start-offset OFFSET.",
    )


def _open_in(topic: str, partitions: set[int], connection: ConnectionSettings, timeout_s: float) -> list[Description]:
    with closing(TransactionClient(connection, timeout_s)) as client:
        listed = client.list_transactions(_ALL, ["Ongoing", "PrepareCommit", "PrepareAbort"])
        described = client.describe(row.transactional_id for row in listed) if listed else {}
    return [
        one
        for one in described.values()
        if isinstance(one, Description) and any((topic, number) in one.partitions for number in partitions)
    ]


def _in_words(one: Description) -> str:
    return f"{one.transactional_id!r} of producer {one.producer_id}, {one.state}, timeout {one.timeout_ms / 1000:g} s"
