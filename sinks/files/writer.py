"""The writer of the file sink: one branch is one file in the staging directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.errors import ConfigurationError, TransientError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Validator, Writer
from tpc.sinks.files.formats import Encoder, HashingFile, encoder, encoder_class
from tpc.sinks.files.layout import Layout, file_name
from tpc.sinks.files.publish import NO_ROOM
from tpc.sinks.shared.exact import REFUSALS, refused_value
from tpc.support.deadlines import KeptThread, within
from tpc.support.durable_files import in_words, make_directories, remove, sync

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.files.sink import FileSink


class FileWriter(Writer):
    """Writes a branch's file.

    `hint["after"]` is the epoch of the newest manifest before this one (-1: none). It later distinguishes a lost branch
    from a directory that was restored to an earlier time; before the first epoch `hint["base"]` does.

    Every step on a silent file system is given up after the sink's `timeout_s`. The thread that still waits closes the
    file once there is an answer: if another thread closed it, the write could go to a file that is opened next.
    """

    def __init__(self, sink: FileSink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
        self.sink = sink
        self.handle = handle
        self.schema = schema
        self.hint = hint
        self.name = file_name(handle, sink.format)
        self.path = Layout(Path(sink.path)).staging / self.name
        self.rows = 0
        self._file: HashingFile | None = None
        self._encoder: Encoder | None = None
        self._thread = KeptThread()
        self._is_whole = True
        """Whether every row was taken."""
        self._is_at_work = False
        self._is_over = False

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows. Raises `DataError` for a value without an exact form, `TransientError` with the path if the disk
        is full, fails or is silent; then the branch must be aborted."""
        if not batch.num_rows:
            return
        self._refuse_unless_whole("writing")
        self._is_whole = False
        with self._failing_as("writing"):
            try:
                self._thread.within(self.sink.timeout_s, lambda: self._take(batch), waiting_for="the file system")
            except REFUSALS as error:
                encoded = encoder_class(self.sink.format).encoded
                raise refused_value(batch, encoded, error, handle=self.handle) from error
        self._is_whole = True
        self.rows += batch.num_rows

    def _take(self, batch: pyarrow.RecordBatch) -> None:
        with self._at_work():
            if self._encoder is None:
                self._refuse_taken_name()
                make_directories(self.path.parent)
                self._file = HashingFile(self.path)
                self._encoder = encoder(self.sink.format, self._file, self.schema)
            self._encoder.write(batch)

    def _refuse_taken_name(self) -> None:
        """Refuse a target that exists: no run uses a handle twice, so a commit would replace another run's file."""
        if (taken := Path(self.sink.path) / self.name).exists():
            raise ConfigurationError(
                f"{taken} exists already: a file of an earlier run of a pipeline with this name, whose bookkeeping"
                " is gone; a commit would replace it",
                sink=self.sink.name,
                remedy="use another incarnation or name for the pipeline, or move the earlier run's files away.",
            )

    def prepare(self) -> Committable | None:
        """Make the file and its directory entry durable; None without rows. On an error the file is removed."""
        self._thread.close()
        if not self._is_whole:
            self._abort_on_error()
        self._refuse_unless_whole("preparing")
        if self._encoder is None or self._file is None:
            return None
        try:
            with self._failing_as("making durable"):
                began = time.perf_counter()
                within(self.sink.timeout_s, self._finish, waiting_for="the file system")
                self.flush_seconds = time.perf_counter() - began
                failpoints.hit_branch("pass.flushed", self.handle)
                within(self.sink.timeout_s, lambda: sync(self.path.parent), waiting_for="the file system")
        except TransientError:
            self._abort_on_error()
            raise
        size_bytes, digest = self._file.size_bytes, self._file.sha256
        data = {"file": self.name, "sha256": digest, "after": self.hint.get("after")}
        if "base" in self.hint:
            data["base"] = self.hint["base"]
        return Committable(self.handle, str(self.handle), self.rows, size_bytes, data)

    def _finish(self) -> None:
        assert self._encoder is not None
        assert self._file is not None
        with self._at_work():
            self._encoder.finish()
            self._file.finish()

    def abort(self) -> None:
        """Remove the file. Raises `TransientError` if the file system fails."""
        self._thread.close()
        if self._file is None and self._is_whole:
            return
        self._is_over = True
        with self._failing_as("removing"):
            within(self.sink.timeout_s, self._undo, waiting_for="the file system")

    def _refuse_unless_whole(self, doing: str) -> None:
        if not self._is_whole:
            raise self._error(doing, "a write of its rows has failed")

    def _abort_on_error(self) -> None:
        with suppress(TransientError):  # the first error is raised; a sweep removes what could not be removed here
            self.abort()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """A step that may still run after it was given up. It then undoes what it has created since."""
        self._is_at_work = True
        try:
            yield
        finally:
            self._is_at_work = False
            if self._is_over:
                self._discard()

    def _undo(self) -> None:
        if self._is_at_work:
            remove(self.path)
        else:
            self._discard()

    def _discard(self) -> None:
        if self._file is not None:
            self._file.discard()
        self._encoder = None
        remove(self.path)

    @contextmanager
    def _failing_as(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = "free space on the disk, then restart: the epoch is repeated." if error.errno in NO_ROOM else None
            raise self._error(doing, in_words(error), remedy) from error

    def _error(self, doing: str, why: str, remedy: str | None = None) -> TransientError:
        return TransientError(
            f"{doing} {self.path} failed: {why}",
            pipeline=str(self.handle.pipeline),
            epoch=self.handle.epoch,
            sink=self.sink.name,
            remedy=remedy,
        )


class FileValidator(Validator):
    """Encodes rows as the writer does, and discards them."""

    def __init__(self, sink: FileSink, handle: Handle) -> None:
        self._encoded = encoder_class(sink.format).encoded
        self._handle = handle

    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """See `Validator`."""
        try:
            self._encoded(batch)
        except REFUSALS as error:
            raise refused_value(batch, self._encoded, error, handle=self._handle) from error
