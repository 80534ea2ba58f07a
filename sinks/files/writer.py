"""The executor's half of the file sink: one branch is one file in the staging directory."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.errors import TransientError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Writer
from tpc.sinks.files.formats import Encoder, HashingFile, encoder
from tpc.sinks.files.layout import Layout, file_name
from tpc.support.deadlines import within
from tpc.support.durable_files import in_words, make_directories, remove, sync

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.files.sink import FileSink

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class FileWriter(Writer):
    """Writes a branch's file.

    `hint["after"]` is the epoch of the newest manifest before this one (-1: none), which later tells a lost branch
    from a directory that was put back to an earlier time.
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

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows. Raises `TransientError` with the path when the disk is full or fails."""
        if not batch.num_rows:
            return
        with self._failing_as("writing"):
            if self._encoder is None:
                make_directories(self.path.parent)
                self._file = HashingFile(self.path)
                self._encoder = encoder(self.sink.format, self._file, self.schema)
            self._encoder.write(batch)
        self.rows += batch.num_rows

    def prepare(self) -> Committable | None:
        """Make the file and its directory entry durable; None without rows. On an error the file is removed."""
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
            self.abort()
            raise
        size_bytes, digest = self._file.size_bytes, self._file.sha256
        data = {"file": self.name, "sha256": digest, "after": self.hint.get("after")}
        return Committable(self.handle, str(self.handle), self.rows, size_bytes, data)

    def _finish(self) -> None:
        assert self._encoder is not None
        assert self._file is not None
        self._encoder.finish()
        self._file.finish()

    def abort(self) -> None:
        """Remove the file. Raises `TransientError` when the file system fails."""
        if self._file is None:
            return
        self._file.discard()
        self._encoder = None
        with self._failing_as("removing"):
            remove(self.path)

    @contextmanager
    def _failing_as(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = "make room on the disk, then restart: the epoch is repeated." if error.errno in NO_ROOM else None
            raise TransientError(
                f"{doing} {self.path} failed: {in_words(error)}",
                pipeline=str(self.handle.pipeline),
                epoch=self.handle.epoch,
                sink=self.sink.name,
                remedy=remedy,
            ) from error
