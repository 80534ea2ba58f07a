"""Multi-document transactions: whether an epoch fits into one, and how to run one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tpc.sinks.mongo.connection import Client
from tpc.sinks.mongo.guarded_writes import Refusal
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

Result = TypeVar("Result")

MAX_TRANSACTION_OPERATIONS = 10_000
"""MongoDB aborts a transaction after 60 s, and recommends at most thousands of documents in one."""


def fits_a_transaction(operations: int) -> bool:
    """Whether this number of operations may be applied in one transaction."""
    return operations <= MAX_TRANSACTION_OPERATIONS


class RefusedError(Exception):
    """Ends a transaction whose operations the server will never take; it does not leave the committer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def run_transaction(client: Client, body: Callable[[ClientSession], Result], timeout_s: float) -> Result:
    """Run `body` in a transaction and commit it, all of it again after a TransientTransactionError.

    PyMongo's own `with_transaction` retries for 120 s; this gives up after `timeout_s` with the last error. If the
    result of a commit is unknown, the commit is repeated (MongoDB manual, "Transactions in Applications").
    """
    from pymongo.errors import PyMongoError
    from pymongo.read_concern import ReadConcern
    from pymongo.write_concern import WriteConcern

    deadline = Deadline(timeout_s)
    while True:
        with client.start_session() as session:
            session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority", j=True))
            try:
                result = body(session)
                _commit(session, deadline)
            except PyMongoError as error:
                if session.in_transaction:
                    session.abort_transaction()
                if not error.has_error_label("TransientTransactionError") or deadline.passed:
                    raise
            except RefusedError:
                session.abort_transaction()
                raise
            else:
                return result


def _commit(session: ClientSession, deadline: Deadline) -> None:
    from pymongo.errors import PyMongoError

    while True:
        try:
            session.commit_transaction()
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult") or deadline.passed:
                raise
        else:
            return
