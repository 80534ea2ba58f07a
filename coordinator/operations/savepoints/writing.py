"""Writes the folder of one savepoint: copies of Spark's files and of the log's records, and the manifest last.

Everything is durable before the manifest has its name. When that may be stands in `making`.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tpc.coordinator.kernel.local_files import LocalFiles
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.operations.savepoints.copying import (
    check_whole,
    copy_file,
    spark_files,
    sync_directories,
    write_file,
)
from tpc.coordinator.operations.savepoints.manifest import (
    CHECKPOINT,
    FILE_NAME,
    LOG,
    Kind,
    SavepointManifest,
    SinkShown,
    decode,
)
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.state import StateFiles
from tpc.coordinator.spark.state_partitions import state_partitions
from tpc.errors import StateLostError
from tpc.history import History
from tpc.sink import Marker
from tpc.support import durable_files

_UNFINISHED = f".{FILE_NAME}.unfinished"
"""The manifest while it has not got its name."""
_TRIAL_BYTES = 4096
"""Of a full disk an empty file is no trial."""


@dataclass(frozen=True)
class Writing:
    """One savepoint on its way."""

    log: Log
    checkpoint: Path
    to: Path
    history: History
    epoch: int
    kind: Kind
    identity: str
    asked: Mapping[str, Marker | None] | None
    """What the sinks show, where they were asked."""

    @property
    def folder(self) -> Path:
        """The savepoint's folder, whether it is there or not."""
        return self.to / self._manifest({}).folder_name

    @property
    def is_there(self) -> bool:
        """Whether this very savepoint is made already."""
        return (self.folder / FILE_NAME).exists()

    def lacks_name_only(self) -> bool:
        """Whether all of it is there but the name of the manifest. Raises `CorruptionError` where files are not."""
        unfinished = self.folder / _UNFINISHED
        if not unfinished.exists():
            return False
        check_whole(self.folder, decode(unfinished.read_bytes(), str(self.folder)))
        return True

    def discard(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, slots: Sequence[int]) -> None:
        """All of it, durable, but for the name of the manifest."""
        durable_files.make_directories(self.to)
        if self.folder.exists():
            shutil.rmtree(self.folder)  # it has no manifest: an interrupted making has left it
        files: dict[str, tuple[int, str]] = {}
        for name in spark_files(self.checkpoint):
            if self._is_of_epoch(name):
                files[f"{CHECKPOINT}/{name}"] = copy_file(self.checkpoint / name, self.folder / CHECKPOINT / name)
        for slot in slots:
            name = f"{LOG}/{slot:020d}.json"
            files[name] = write_file(self.folder / name, self.log.read(slot))
        self._require_state()
        durable_files.replace(self.folder / _UNFINISHED, self._manifest(files).encode())
        sync_directories(self.folder, files)
        durable_files.sync(self.to)

    def finish(self) -> Path:
        """The folder is a savepoint."""
        (self.folder / _UNFINISHED).rename(self.folder / FILE_NAME)
        durable_files.sync(self.folder)
        return self.folder

    def _is_of_epoch(self, name: str) -> bool:
        """Of a pipeline that runs, what Spark has planned and committed after the epoch stays behind."""
        folder, _, file = name.partition("/")
        number = file.removeprefix(".").removesuffix(".crc")
        later = folder in ("offsets", "commits") and number.isdigit() and int(number) > self.epoch
        return not (self.kind is Kind.COPY and later)

    def _require_state(self) -> None:
        """What Spark goes on from is there: nobody will have the old checkpoint any more."""
        spark = SparkLog(LocalFiles(self.folder / CHECKPOINT))
        commits = [batch for batch in spark.batches("commits") if spark.is_whole_commit(batch)]
        wrong = None if not commits else StateFiles(spark).why_not_whole(commits[-1])
        if wrong is not None:
            self.discard()
            raise StateLostError(
                f"{wrong}: it cannot be saved",
                remedy="start the pipeline once more where it is, which catches up, then make the savepoint.",
            )

    def _manifest(self, files: Mapping[str, tuple[int, str]]) -> SavepointManifest:
        history = self.history
        assert history.pipeline is not None
        sinks = {}
        for name, identity in history.sinks.items():
            if self.asked is None or name not in self.asked:
                sinks[name] = SinkShown(identity, history.last_epoch_of(name), asked=False)
            else:
                marker = self.asked[name]
                sinks[name] = SinkShown(identity, None if marker is None else marker.epoch, asked=True)
        return SavepointManifest(
            id=self.identity,
            kind=self.kind,
            pipeline=history.pipeline,
            generation=history.generation,
            epoch=self.epoch,
            made_at=time.time(),
            made_by=_version(),
            state_partitions=state_partitions(SparkLog(LocalFiles(self.checkpoint))),
            sinks=sinks,
            files=files,
        )


def require_writable(to: Path) -> None:
    """Write a file where a folder `to` is or would be made, and remove it. Raises `OSError`."""
    there = next(path for path in (to, *to.absolute().parents) if os.path.lexists(path))  # a link to nowhere is there
    trial = there / f".trial-{uuid.uuid4().hex}"
    durable_files.create(trial, bytes(_TRIAL_BYTES))
    durable_files.remove(trial)


def _version() -> str:
    try:
        return version("tpc")
    except PackageNotFoundError:
        return "unknown"
