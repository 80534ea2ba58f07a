"""The files of a checkpoint on any file system that Spark can use, through Spark's own `CheckpointFileManager`.

The manager is the one that the session is set to, so that a file is as whole here as Spark's own are. A completed write
is as durable as the file system makes it: nothing is forced there. Calls go to the JVM of the session, by py4j.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tpc.coordinator.spark.checkpoint_files import CheckpointFiles, Entry
from tpc.errors import ConfigurationError, TransientError
from tpc.support.names_below import require_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

TIMEOUT_S = 300.0
"""For one file or folder. Hadoop's clients try again by themselves for minutes, so nothing is tried again here."""
WHOLE_OR_ABSENT = frozenset({"s3a", "s3", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn"})
"""Object stores: an object is there with all its bytes or not at all."""


class NothingToForce:
    """The state stores and the sources' logs are as durable as their completed writes."""

    def begin(self) -> NothingToForce:
        """See `Durability.begin`."""
        return self

    def wait(self) -> None:
        """See `FilesOfEpoch.wait`."""

    def close(self) -> None:
        """See `Durability.close`."""


class SparkFiles(CheckpointFiles):
    """The checkpoint at `url`, through the JVM of `session`; else of the one that runs when a file is asked for."""

    def __init__(self, url: str, notes: Path, session: SparkSession | None = None) -> None:
        self.url = url.rstrip("/")
        self.notes = notes
        self.can_tear = url.partition(":")[0].lower() not in WHOLE_OR_ABSENT
        self._given = session
        self._thread = JvmThread("tpc-checkpoint")

    def __str__(self) -> str:
        return self.url

    def read(self, name: str) -> bytes | None:
        """See `CheckpointFiles.read`. Nothing is left of a file whose checksums say that it is another."""

        def read() -> bytes | None:
            try:
                stream = self._manager.open(self._path(name))
                try:
                    return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
                finally:
                    stream.close()
            except self._java_error as error:
                if _is_a(error, "java.io.FileNotFoundException"):
                    return None
                if _is_a(error, "org.apache.hadoop.fs.ChecksumException"):
                    return b""
                raise

        return self._asked("read", name, read)

    def entries(self, folder: str) -> list[Entry]:
        """See `CheckpointFiles.entries`."""

        def entries() -> list[Entry]:
            try:
                found = self._manager.list(self._path(folder))
            except self._java_error as error:
                if _is_a(error, "java.io.FileNotFoundException"):
                    return []
                raise
            return [Entry(one.getPath().getName(), bool(one.isDirectory()), int(one.getLen())) for one in found]

        listed = self._asked("list", folder, entries)
        return sorted((one for one in listed if not one.name.startswith(".")), key=lambda entry: entry.name)

    def write(self, name: str, data: bytes) -> None:
        """See `CheckpointFiles.write`: as Spark writes its own log, a new name or a completed upload at the end.

        What is there is deleted first: not every manager overwrites, and one that does not says nothing of it. In
        between the file is gone, and the next start writes it again.
        """

        def write() -> None:
            path = self._path(name)
            self._manager.mkdirs(path.getParent())
            self._manager.delete(path)
            stream = self._manager.createAtomic(path, True)
            try:
                stream.write(bytearray(data))
                stream.close()
            except BaseException:
                stream.cancel()
                raise

        self._asked("write", name, write)
        if self.read(name) != data:
            raise TransientError(
                f"the checkpoint's {self.where(name)} does not hold what was written to it",
                remedy="see that no other driver runs on this checkpoint, then restart.",
            )

    def move_aside(self, name: str) -> None:
        """See `CheckpointFiles.move_aside`: a copy, then the file is deleted, since not every place can rename."""
        data = self.read(name)
        if data is None:
            return
        self.write(f"tpc/moved-aside/{name.replace('/', '-')}-{time.time_ns()}", data)
        self._asked("delete", name, lambda: self._manager.delete(self._path(name)))

    def make_durable(self, names: Iterable[str]) -> None:
        """See `CheckpointFiles.make_durable`: what Spark has closed there is as durable as it becomes."""

    def background_fsync(self) -> NothingToForce:
        """See `CheckpointFiles.background_fsync`."""
        return NothingToForce()

    # The JVM ---------------------------------------------------------------------------------------------------

    def _asked(self, what: str, name: str, call: Callable[[], Result]) -> Result:
        """The result of a call. Raises `TransientError` for what the file system says, or when it says nothing."""
        from py4j.protocol import Py4JError

        _ = self._session  # one that is not there is no trouble of the file system
        try:
            return self._thread.ask(call, TIMEOUT_S)
        except TimeoutError as error:
            said = str(error)
        except Py4JError as error:
            said = _said(error)
        raise TransientError(
            f"the checkpoint's {self.where(name)} cannot be {_PAST[what]}: {said}",
            remedy="bring the file system back, or correct what it names (address, rights, bucket), then restart.",
        )

    @cached_property
    def _java_error(self) -> type[Exception]:
        from py4j.protocol import Py4JJavaError

        error: type[Exception] = Py4JJavaError
        return error

    @cached_property
    def _session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        session = self._given or SparkSession.getActiveSession()
        if session is None:
            raise ConfigurationError(
                f"the checkpoint {self.url} is reached through Spark, and no Spark session runs in this process",
                remedy="name the job (module:function), which makes one.",
            )
        return session

    @property
    def _jvm(self) -> Any:
        return self._session._jvm

    @cached_property
    def _manager(self) -> Any:
        hadoop = self._session._jsparkSession.sessionState().newHadoopConf()
        streaming = self._jvm.org.apache.spark.sql.execution.streaming
        try:
            for package in (streaming, streaming.checkpointing):  # Spark 4.0, and 4.1 and later
                if "JavaClass" in type(package.CheckpointFileManager).__name__:
                    return package.CheckpointFileManager.create(self._path(""), hadoop)
        except self._java_error as error:
            raise ConfigurationError(
                f"Spark cannot use the checkpoint {self.url}: {_said(error)}",
                remedy="give the session the file system's jars (spark.jars) and its settings (spark.hadoop.fs...).",
            ) from None
        raise ConfigurationError("this Spark has no CheckpointFileManager", remedy="use a Spark that the tests name.")

    def _path(self, name: str) -> Any:
        below = f"/{require_below(name, f'the checkpoint {self.url}')}" if name else ""
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}{below}")


_PAST = {"read": "read", "list": "listed", "write": "written", "delete": "moved aside"}


def _is_a(error: Any, name: str) -> bool:
    """Whether Java's exception is of that class, or of one below it."""
    its = error.java_exception.getClass()
    while its is not None:
        if its.getName() == name:
            return True
        its = its.getSuperclass()
    return False


def _said(error: Any) -> str:
    """The kind of Java's exception and its first line."""
    exception = getattr(error, "java_exception", None)
    if exception is None:
        return "Spark's JVM does not answer"
    while exception.getMessage() is None and exception.getCause() is not None:  # one that only wraps another
        exception = exception.getCause()
    message = str(exception.getMessage() or "").strip().splitlines()
    kind = str(exception.getClass().getSimpleName())
    return f"{kind}: {message[0][:300]}" if message else kind


# One thread for calls to the JVM that may hang: a deadline for each, and one connection for all of them.
#
# PySpark keeps a connection to the JVM, and a thread there, for every thread that calls it.


class JvmThread:
    """Calls are made one after the other. A daemon: one that hangs does not hold up the end of the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, call: Callable[[], Result], timeout_s: float) -> Result:
        """The result of `call`. Raises what it raises, and `TimeoutError` when there is none in time."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        answer: Future[Result] = Future()
        self._calls.put((call, answer))
        try:
            return answer.result(timeout_s)
        except StillWaiting:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None

    def _run(self) -> None:
        while True:
            call, answer = self._calls.get()
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
                answer.set_exception(error)
