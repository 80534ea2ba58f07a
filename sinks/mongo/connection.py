"""The connection of the MongoDB sink: one kind of client, deadlines, retries, and errors as text.

Every client writes with `w: majority, j: true`, reads with read concern `majority` from the primary, and gives each
call `timeout_s` seconds (PyMongo's `timeoutMS`, retries included). PyMongo's messages about a connection string are
never repeated, since they may quote a password.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from tpc.errors import ConfigurationError, TransientError
from tpc.settings import Elsewhere, resolve
from tpc.support.fork_safe_lock import ForkSafeLock

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.collection import Collection
    from pymongo.database import Database

Document: TypeAlias = "dict[str, Any]"
Client: TypeAlias = "MongoClient[Document]"
DocumentCollection: TypeAlias = "Collection[Document]"
DocumentDatabase: TypeAlias = "Database[Document]"
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

logger = logging.getLogger(__name__)

ATTEMPTS = 3
RETRY_WAIT_S, RETRY_WAIT_MAX_S = 0.05, 1.0
TRANSACTIONAL = frozenset({"RSPrimary", "RSSecondary", "RSOther", "Mongos", "LoadBalancer"})
"""PyMongo's names of the servers that run multi-document transactions."""

_shared: dict[tuple[int, str, float], Client] = {}
_lock = ForkSafeLock(fork_waits=False)


def connect(uri: str | Elsewhere, timeout_s: float) -> Client:
    """A client; it connects at its first use.

    Raises `ConfigurationError` for an invalid connection string, or one that names missing files.
    """
    from pymongo import MongoClient
    from pymongo.errors import PyMongoError

    timeout_ms, text = int(timeout_s * 1000), resolve(uri)
    if not text.startswith(("mongodb://", "mongodb+srv://")):
        raise _bad_uri(uri)  # PyMongo would take it for the name of a host
    try:
        return MongoClient(
            text,
            tz_aware=True,
            appname="tpc",
            w="majority",
            journal=True,
            readConcernLevel="majority",
            readPreference="primary",
            timeoutMS=timeout_ms,
            serverSelectionTimeoutMS=timeout_ms,
            connectTimeoutMS=timeout_ms,
        )
    except (PyMongoError, ValueError):
        raise _bad_uri(uri) from None
    except OSError as error:  # PyMongo reads the files when the client is made
        raise ConfigurationError(
            f"a file that the connection string names cannot be used: {error.strerror or type(error).__name__}",
            remedy="check that tlsCAFile and tlsCertificateKeyFile name existing PEM files, on every machine of the"
            " pipeline.",
        ) from None


def shared(uri: str | Elsewhere, timeout_s: float) -> Client:
    """A client that is kept as long as this process, since every task makes new writers."""
    key = (os.getpid(), resolve(uri), timeout_s)
    with _lock:
        if key not in _shared:
            _shared[key] = connect(uri, timeout_s)
        return _shared[key]


def database_in(uri: str | Elsewhere) -> str | None:
    """The database in a connection string, if there is one."""
    text = re.sub(r"[?#].*", "", resolve(uri))
    match = re.fullmatch(r"mongodb(?:\+srv)?://[^/]+/([^/]+)", text)
    return match.group(1) if match else None


def _bad_uri(uri: str | Elsewhere) -> ConfigurationError:
    where = repr(uri) if isinstance(uri, Elsewhere) else "uri="
    return ConfigurationError(
        f"the connection string in {where} is not valid",
        remedy="use mongodb://user:password@host:port/database with user and password percent-encoded.",
    )


def runs_transactions(client: Client) -> bool:
    """Whether the server runs multi-document transactions: a replica set or a sharded cluster does."""
    client.admin.command("ping")
    servers = client.topology_description.server_descriptions().values()
    return any(server.server_type_name in TRANSACTIONAL for server in servers)


def retried(call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """The result of an idempotent call, repeated after a broken connection; at most `ATTEMPTS` times."""
    from pymongo.errors import AutoReconnect, ServerSelectionTimeoutError
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    retrying = Retrying(
        # Not if no server answered: then the whole deadline has passed already.
        retry=retry_if_exception(
            lambda e: isinstance(e, AutoReconnect) and not isinstance(e, ServerSelectionTimeoutError)
        ),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(RETRY_WAIT_S, RETRY_WAIT_MAX_S),
        reraise=True,
    )
    return retrying(call, *args, **kwargs)


@contextmanager
def transient(doing: str, **where: Any) -> Iterator[None]:
    """Turn what PyMongo raises into a `TransientError` that says what was being done."""
    from pymongo.errors import PyMongoError

    try:
        yield
    except PyMongoError as error:
        raise TransientError(f"{doing} failed: {in_words(error)}", **where) from error


def in_words(error: Exception) -> str:
    """A short text for a PyMongo error: the server's message, or the kind of error and the beginning of its text."""
    from pymongo.errors import BulkWriteError, OperationFailure, ServerSelectionTimeoutError

    if isinstance(error, BulkWriteError):
        details = error.details or {}
        errors = [*details.get("writeErrors", []), *details.get("writeConcernErrors", [])]
        return f"{errors[0].get('errmsg')} (code {errors[0].get('code')})" if errors else "bulk write failed"
    if isinstance(error, OperationFailure):
        message = (error.details or {}).get("errmsg") or str(error)
        return f"{message} (code {error.code})"
    if isinstance(error, ServerSelectionTimeoutError):
        return f"no server answers: {str(error).partition(' (configured')[0].partition(', Timeout')[0]}"
    return f"{type(error).__name__}: {str(error)[:200]}"
