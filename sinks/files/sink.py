"""The file sink: rows into files of a local directory, published by one manifest per epoch. Opens nothing.

A branch is one file. It is written and made durable in `<path>/_tpc/staging/`. Commit renames it into `<path>/` and
then puts the epoch's manifest: only files that a manifest names are committed. Readers read the manifests
(`committed_files`, `committed_paths`) and never list the directory.

    spark.read.parquet(*committed_paths("/data/flights"))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.durations import require_timeouts
from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId, default_name
from tpc.json import JSONObject
from tpc.parameter_types import kinds_checked
from tpc.sink import Committer, ExecutorNeeds, Sink, Validator, Writer
from tpc.urls import without_user

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("parquet", "json", "csv")


class FileSink(Sink):
    """Rows into Parquet, JSON or CSV files.

    Args:
        path: a directory on a file system that all machines of the pipeline mount under this path, with hard links
            and atomic renames (POSIX). It is created if it does not exist. A relative path is relative to the working
            directory in which this object is made, for all processes. `check` refuses object stores.
        format: 'parquet' (zstd); 'json': one object per line as Spark's `to_json` writes it, NULLs left out, binary
            as base64; 'csv': RFC 4180 with a header, strings quoted and NULL as an unquoted empty field.
        name: the sink's name; by default `files-<last part of the path>`.
        timeout_s: how long one write, prepare, commit, abort or listing may wait for the file system.
    """

    kind = "files"

    @kinds_checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "parquet",
        name: str | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        path = os.fspath(path)
        super().__init__(name or default_name("files", path.rstrip("/").rpartition("/")[2]))
        if format not in FORMATS:
            raise ConfigurationError(
                f"unknown format {format!r}", sink=self.name, remedy=f"use one of {', '.join(FORMATS)}."
            )
        self.path = _absolute(path.removeprefix("file://") if path.startswith("file:///") else path)
        self.format = format
        require_timeouts(f"the sink {self.name}", timeout_s=timeout_s)
        self.timeout_s = timeout_s

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch; it creates its file with the first row."""
        from tpc.sinks.files.writer import FileWriter

        return FileWriter(self, handle, schema, hint)

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator:
        """Checks that rows have an exact form in the format."""
        from tpc.sinks.files.writer import FileValidator

        return FileValidator(self, handle)

    def committer(self, pipeline: PipelineId) -> Committer:
        """See `Sink.committer`."""
        from tpc.sinks.files.committer import FileCommitter

        return FileCommitter(self, pipeline)

    def describe(self) -> Mapping[str, str]:
        """The path and the format."""
        return {"path": without_user(self.path), "format": self.format}

    def executor_needs(self) -> ExecutorNeeds:
        """The directory."""
        return ExecutorNeeds(directories=(self.path,))

    def __repr__(self) -> str:
        return f"FileSink({without_user(self.path)!r}, name={self.name!r}, format={self.format!r})"


def _absolute(path: str) -> str:
    """An absolute path: worker processes have other working directories, so a relative one would differ there."""
    return path if "://" in path else str(Path(path).absolute())
