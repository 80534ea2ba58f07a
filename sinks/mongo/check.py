"""The checks of the MongoDB sink before the first epoch; they also log the guarantee that it gives."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError, TransientError
from tpc.findings import Finding, Level, clocks
from tpc.merge import MergeHow, MergePlan
from tpc.settings import resolve
from tpc.sink import CheckContext
from tpc.sinks.mongo.connection import Client, DocumentDatabase, in_words, runs_transactions
from tpc.sinks.mongo.markers import MARKERS, Markers
from tpc.sinks.mongo.outbox import OUTBOX
from tpc.sinks.mongo.owners import OWNERS
from tpc.sinks.mongo.values import GUARDS, fault_of_name, fault_of_type, has_order, is_number, is_scalar
from tpc.support.fork_safe_lock import ForkSafeLock

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.mongo.sink import MongoSink

logger = logging.getLogger(__name__)

COMMUTATIVE = (MergeHow.ADD, MergeHow.MIN, MergeHow.MAX)
PROBE = "tpc-check"
UNAUTHORIZED, AUTHENTICATION_FAILED, NAMESPACE_EXISTS = 13, 18, 48

_making_collections = ForkSafeLock(fork_waits=False)
"""Sinks of a pipeline are checked in parallel, and mongo-java-server breaks a collection that two create at once."""


def check(sink: MongoSink, client: Client, context: CheckContext) -> None:
    """Raise `ConfigurationError` for what would fail later; create the collections; log the guarantee."""
    _check_columns(sink, context.schema)
    for peer in context.peers:
        if isinstance(peer, type(sink)):
            _check_peer(sink, peer)
    with explained(sink):
        transactions = runs_transactions(client)
        if sink.mode == "transaction" and not transactions:
            raise ConfigurationError(
                "the MongoDB server is standalone and has no transactions",
                sink=sink.name,
                remedy="make it a replica set (one member will do), or pass mode='guarded' (eventually atomic).",
            )
        database = client[sink.database_name()]
        _make_collections(sink, database)
        _try_to_write(sink, database)
        Markers(database[MARKERS]).installation()
        unique = _unique_indexes(sink, database)
    if unique:
        logger.warning(
            "sink %s: collection %s has unique indexes %s: an operation that violates one is found only when a "
            "decided epoch is applied, and parks the pipeline",
            *(sink.name, sink.collection, ", ".join(unique)),
        )
    guarantee = (
        "atomic: each epoch is one transaction"
        if transactions and sink.mode != "guarded"
        else "eventually atomic: readers see an epoch arrive document by document, each exactly once"
    )
    logger.info("sink %s: MongoDB collection %s, %s", sink.name, sink.collection, guarantee)


@contextmanager
def explained(sink: MongoSink) -> Iterator[None]:
    """Turn what PyMongo raises into a `ConfigurationError` with a remedy."""
    from pymongo.errors import (
        ExecutionTimeout,
        NetworkTimeout,
        OperationFailure,
        PyMongoError,
        ServerSelectionTimeoutError,
    )

    try:
        yield
    except ServerSelectionTimeoutError as error:
        raise ConfigurationError(
            f"MongoDB cannot be reached within {sink.timeout_s:g} s: {in_words(error)}",
            sink=sink.name,
            remedy="start the server, or correct host, port and TLS options of the connection string.",
        ) from error
    except (ExecutionTimeout, NetworkTimeout) as error:
        raise TransientError(
            f"MongoDB has not answered within {sink.timeout_s:g} s: {in_words(error)}",
            sink=sink.name,
            remedy="start again; if that does not help, check the server's load or pass a greater timeout_s.",
        ) from error
    except OperationFailure as error:
        remedies = {
            UNAUTHORIZED: "grant the user readWrite on this database.",
            AUTHENTICATION_FAILED: "correct user, password and authSource of the connection string.",
        }
        remedy = remedies.get(error.code or 0, "see the server's message.")
        raise ConfigurationError(f"MongoDB refuses: {in_words(error)}", sink=sink.name, remedy=remedy) from error
    except PyMongoError as error:
        # For instance a server too old for this PyMongo, or too new.
        raise ConfigurationError(
            f"MongoDB cannot be used: {in_words(error)}",
            sink=sink.name,
            remedy="check that the server and PyMongo support each other.",
        ) from error


def _check_columns(sink: MongoSink, schema: pyarrow.Schema) -> None:
    for field in schema:
        fault = fault_of_name(field.name) or fault_of_type(field.type)
        if field.name == GUARDS:
            fault = f"the name {GUARDS!r} belongs to this library"
        if fault:
            remedy = "rename it or leave it out with select=, or convert it before it is written."
            raise _column(sink, field.name, fault, remedy)
    if len(set(schema.names)) < len(schema.names):
        raise ConfigurationError("two columns have one name", sink=sink.name, remedy="rename one with select=.")
    plan = sink.plan_for(schema.names)
    if plan is not None:
        _check_plan(sink, plan, schema)


def _check_plan(sink: MongoSink, plan: MergePlan, schema: pyarrow.Schema) -> None:
    needed = [*plan.key, *plan.columns, *([plan.order_by] if plan.order_by else [])]
    for column in needed:
        if column not in schema.names:
            raise _column(sink, column, f"the rows have no such column, only {schema.names}", "correct key= or merge=.")
    for column in schema.names:
        if column not in needed:
            raise _column(sink, column, "the merge does not say what happens to it", "add it to merge=.")
    if "_id" in plan.columns:
        raise _column(sink, "_id", "_id is the key of the document", "rename it with select=.")
    for column in plan.key:
        if not is_scalar(schema.field(column).type):
            raise _column(sink, column, f"type {schema.field(column).type} has no order", "use a plain column.")
    if plan.order_by is not None and not has_order(kind := schema.field(plan.order_by).type):
        raise _column(sink, plan.order_by, f"values of type {kind} have no order", "use a number, a time or a text.")
    for column, how in plan.columns.items():
        kind = schema.field(column).type
        if how is MergeHow.ADD and not is_number(kind):
            raise _column(sink, column, f"values of type {kind} cannot be added", "use a number, or another merge.")
        if how in (MergeHow.MIN, MergeHow.MAX) and not has_order(kind):
            raise _column(sink, column, f"values of type {kind} have no order", "use another merge.")


def _column(sink: MongoSink, column: str, fault: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"column {column!r}: {fault}", sink=sink.name, remedy=remedy, column=column)


def _check_peer(sink: MongoSink, peer: MongoSink) -> None:
    """Two sinks may merge into one collection only if the order of their writes does not matter."""
    one, other = ((resolve(s.uri), s.database_name(), s.collection) for s in (sink, peer))
    if one != other or sink.merge is None or peer.merge is None:
        return
    both = set(sink.merge.columns) & set(peer.merge.columns)
    unnamed = sink.merge.every is not None or peer.merge.every is not None  # the peer's columns are unknown here
    hows = ((sink.merge.columns[column], peer.merge.columns[column]) for column in both)
    if unnamed or any(mine is not theirs or mine not in COMMUTATIVE for mine, theirs in hows):
        raise ConfigurationError(
            f"sinks {sink.name} and {peer.name} merge into collection {sink.collection} in ways that depend on the "
            "order of their writes",
            sink=sink.name,
            remedy="name the columns in merge=, and let columns that both write be 'add', 'min' or 'max' in both.",
        )


def _make_collections(sink: MongoSink, database: DocumentDatabase) -> None:
    """Create the collections: before MongoDB 4.4 a transaction cannot do that."""
    from pymongo.errors import CollectionInvalid, OperationFailure

    with _making_collections:
        there = set(database.list_collection_names())
        for name in (OUTBOX, MARKERS, OWNERS, sink.collection):
            if name not in there:
                try:
                    database.create_collection(name)
                except (CollectionInvalid, OperationFailure) as error:
                    # PyMongo checks first and raises `CollectionInvalid`; the server refuses the second of two creates.
                    if isinstance(error, OperationFailure) and error.code != NAMESPACE_EXISTS:
                        raise
                    logger.debug("collection %s was created by another process meanwhile", name)


def _try_to_write(sink: MongoSink, database: DocumentDatabase) -> None:
    """Use the privileges that an epoch needs, on documents that do not exist afterwards.

    Only inserts into the target are not tried: readers must never see a document there that is not of an epoch.
    """
    for name in (OUTBOX, MARKERS, OWNERS):
        database[name].find_one({"_id": PROBE})
        database[name].update_one({"_id": PROBE}, {"$set": {"by": sink.name}}, upsert=True)
        database[name].delete_one({"_id": PROBE})
    database[sink.collection].find_one({"_id": PROBE})
    database[sink.collection].update_one({"_id": PROBE}, {"$set": {GUARDS: {}}})


def _unique_indexes(sink: MongoSink, database: DocumentDatabase) -> list[str]:
    indexes = database[sink.collection].list_indexes()
    return [str(index["name"]) for index in indexes if index.get("unique") and dict(index["key"]) != {"_id": 1}]


# What `tpc doctor` reports about a MongoDB server: its version, whether it runs transactions, its clock. Only reads.


def findings(sink: MongoSink, client: Client) -> list[Finding]:
    """Ask the server. Raises what `check` raises."""
    with explained(sink):
        version = str(client.server_info()["version"])
        asked_s = time.time()
        answer = client.admin.command("isMaster")  # every version knows it; "hello" is unknown before 4.4
        answered_s = time.time()
        transactional = runs_transactions(client)
    told = [Finding(Level.OK, "MongoDB", version), _transactions(sink, transactional)]
    if "localTime" in answer:
        told.append(clocks(answer["localTime"].timestamp(), asked_s, answered_s))
    return told


def _transactions(sink: MongoSink, transactional: bool) -> Finding:
    about, needed = "transactions", f"a replica set or a sharded cluster for mode={sink.mode!r}"
    if transactional:
        return Finding(Level.OK, about, "the server runs them", needed)
    if sink.mode == "guarded":
        return Finding(Level.OK, about, "the server is standalone", "nothing for mode='guarded'")
    level = Level.PROBLEM if sink.mode == "transaction" else Level.WARNING
    remedy = "make it a replica set (one member will do): without it an epoch becomes visible gradually."
    return Finding(level, about, "the server is standalone", needed, remedy)
