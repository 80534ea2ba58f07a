"""Ends the Kafka transactions of other processes: the requests that no public client offers, in one place.

A transaction is (transactional id, producer id, producer epoch). A process that knows all three can end it with a raw
EndTxn request, also if the process that wrote it is gone. This module sends requests and returns the broker's answers
by their names in the Kafka protocol. `tpc.sinks.kafka.driver.verdicts` decides what an answer means for a branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer.transaction import EndTxnRequest, InitProducerIdRequest

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka.cluster.answers import RETRIABLE, UNANSWERED, Description, Listing, Reply, Transaction
from tpc.sinks.kafka.cluster.raw_requests import (
    TRANSACTION,
    RawClient,
    brokers,
    by_coordinator,
    each,
    forget,
    forget_moved,
    look_up,
    reply_of,
    to_coordinator,
)


class TransactionClient(RawClient):
    """Sends requests to transaction coordinators. Connects at the first call, and again after a failure.

    Every call ends within about `timeout_s`. Calls may come from one thread at a time.
    """

    def endtxn_version(self) -> int:
        """The EndTxn version to use: 5 if the cluster has finalised transaction.version 2, else 3 or 4.

        5 ends a transaction and bumps its epoch in one step (KIP-890), which makes its answers unambiguous.
        Returns less than 3 if the brokers are older than Kafka 2.7. Raises `TransientError`.
        """

        async def ask(admin: Any) -> int:
            newest = int(admin._manager.broker_version_data.api_version(EndTxnRequest))
            features = await admin._async_describe_features()
            level = features.get("transaction.version", {}).get("finalized", (0, 0))[1]
            return newest if level >= 2 else min(newest, 4)

        return int(self.run(ask, "which version of EndTxn the broker has"))

    def end(self, transactions: Sequence[Transaction], *, commit: bool) -> list[Reply]:
        """Commit or abort each of `transactions`, hundreds at once. Never raises for an answer."""

        async def one(admin: Any, transaction: Transaction) -> Reply:
            return await end_one(admin, transaction, commit=commit)

        async def end_all(admin: Any) -> list[Reply]:
            await look_up(admin, TRANSACTION, [one.transactional_id for one in transactions])
            return await each(admin, one, transactions)

        try:
            replies: list[Reply] = self.run(end_all, "EndTxn")
        except (ConfigurationError, TransientError) as error:
            return [Reply(UNANSWERED, str(error.details.get("cause", error.what)))] * len(transactions)
        if any(reply.name == UNANSWERED for reply in replies):
            self.close()
        return replies

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Description | Reply]:
        """The coordinators' answer for each id: a description, or the error's name.

        Raises `TransientError`, also while a coordinator is loading or moving.
        """

        names = list(transactional_ids)

        async def ask(admin: Any) -> dict[str, Description | Reply]:
            answers: dict[str, Description | Reply] = {}
            for node, names_there in (await by_coordinator(admin, TRANSACTION, names)).items():
                request = DescribeTransactionsRequest(transactional_ids=names_there)
                response = await admin._manager.send(request, node_id=node)
                answers.update(description_of(state) for state in response.transaction_states)
            forget_moved(admin, TRANSACTION, answers)
            for name, answer in answers.items():
                if isinstance(answer, Reply) and answer.name in RETRIABLE:
                    raise TransientError(f"Kafka cannot describe the transaction {name} now: {answer}")
            return answers

        described: dict[str, Description | Reply] = self.run(ask, "DescribeTransactions")
        return described

    def list_transactions(self, pattern: str, states: Sequence[str]) -> list[Listing]:
        """Transactions in one of `states` whose whole id matches the RE2 `pattern`. Raises `TransientError`.

        Brokers before 4.1 ignore the pattern and return every id, so the caller must compare names.
        """

        async def ask(admin: Any) -> list[Listing]:
            version = admin._manager.broker_version_data.api_version(ListTransactionsRequest)
            per_broker = await admin._async_list_transactions(
                broker_ids=await brokers(admin),
                state_filters=list(states),
                transactional_id_pattern=pattern if version >= 2 else None,
            )
            return [
                Listing(row.transactional_id, row.producer_id, row.state.value)
                for rows in per_broker.values()
                for row in rows
            ]

        rows: list[Listing] = self.run(ask, "ListTransactions")
        return rows

    def fence(self, transactional_id: str, transaction_timeout_ms: int) -> Reply:
        """Start the abort of what is open under the id and fence its writer, by a raw InitProducerId.

        The answer is CONCURRENT_TRANSACTIONS while the abort is under way. A repeated request would then make the id
        look unused, and destroy the evidence of the abort. Raises `TransientError`.
        """

        async def ask(admin: Any) -> Reply:
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,  # of the empty transaction after it
                producer_id=-1,
                producer_epoch=-1,
                max_version=5,  # 6 is KIP-939's and not stable
            )
            response = await to_coordinator(admin, TRANSACTION, transactional_id, request)
            return reply_of(response.error_code)

        reply: Reply = self.run(ask, "InitProducerId")
        return reply


async def end_one(admin: Any, transaction: Transaction, *, commit: bool) -> Reply:
    """EndTxn for one transaction, within a question. Never raises for an answer."""
    request = EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        committed=commit,
        min_version=transaction.endtxn_version,
        max_version=transaction.endtxn_version,
    )
    try:
        response = await to_coordinator(admin, TRANSACTION, transaction.transactional_id, request)
    except (KafkaError, OSError) as error:
        # The lookup of the coordinator may be refused for a moment, like the request itself; then nothing was sent.
        name = str(getattr(type(error), "message", ""))
        return Reply(name if name in RETRIABLE else UNANSWERED, f"{type(error).__name__}: {error}")
    forget(admin, TRANSACTION, transaction.transactional_id)
    return reply_of(response.error_code)


def description_of(state: Any) -> tuple[str, Description | Reply]:
    """An id, and its answer in a response of DescribeTransactions."""
    if state.error_code != 0:
        return state.transactional_id, reply_of(state.error_code)
    return state.transactional_id, Description(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        frozenset((str(topic.topic), int(number)) for topic in state.topics for number in topic.partitions),
    )
