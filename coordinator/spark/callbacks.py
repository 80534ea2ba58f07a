"""Spark's calls of Python functions: kept possible, where Py4J would stop accepting them for good.

A query calls its batch function over a connection of its own. One thread of Python accepts them all, and it ends with
the first error: with no descriptor or no thread left, and at once where its socket's descriptor is above what `select`
takes (Py4J 0.10.9, measured). Spark is not told: each query that starts after it waits for its first batch, without end
and without an error, and cannot be stopped.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_FD_SETSIZE = 1024
"""Of the C library: `select` takes descriptors below it."""


def require_callbacks(session: SparkSession) -> None:
    """Before a query starts. Raises ConfigurationError where this process has too many files open for Py4J."""
    from pyspark import java_gateway

    ensure_started: Any = java_gateway.ensure_callback_server_started  # PySpark has no types of it
    gateway: Any = session.sparkContext._gateway
    if (server := _server(gateway)) is not None and not _is_selectable(server):
        # It has accepted nothing, so nothing is lost with it. Descriptors may be free by now.
        server.server_socket.close()
        gateway._callback_server = None
    ensure_started(gateway)
    if not _is_selectable(_server(gateway)):
        raise ConfigurationError(
            f"this process has {_FD_SETSIZE} or more files and connections open, and has run no query of Spark before: "
            "Py4J cannot take Spark's calls any more",
            remedy="start a first query of Spark before the process opens so many; any later one may follow after it.",
        )
    resume_callbacks(session)


def resume_callbacks(session: SparkSession) -> None:
    """Accept calls again where Py4J has stopped it. Calls that came meanwhile have waited, and are answered now."""
    server = _server(session.sparkContext._gateway)
    if server is None or server.thread.is_alive() or server.is_shutdown:
        return
    logger.warning("Py4J had stopped accepting Spark's calls of Python, for want of descriptors or threads: they go on")
    server.thread = threading.Thread(target=server.run, name="py4j-callbacks", daemon=True)
    server.thread.start()


def _server(gateway: Any) -> Any:
    return vars(gateway).get("_callback_server")  # getattr would ask the JVM for a class of that name


def _is_selectable(server: Any) -> bool:
    return bool(0 <= server.server_socket.fileno() < _FD_SETSIZE)
