"""Spark's own log of a streaming query: `metadata`, `offsets/N`, `commits/N` in the checkpoint.

Spark never fsyncs these on a local file system (measured: no fsync under strace), so after a power cut they may
lie behind the intent log. Here they are read, made durable, compared with manifests and, when they are missing,
written back. What a difference means is decided in `reconcile.py`; the files that they name are made durable by
`checkpoint_fsync.py`.
"""

from __future__ import annotations

import hashlib
import json
import re

from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.whole_files import is_whole
from tpc.errors import HistoryMismatchError, TransientError
from tpc.manifest import EpochInput

RESTART = (
    "restart the pipeline (a supervisor does it): the start puts Spark's files right. Another driver has changed "
    "them: where one was forgotten, end it."
)
"""What to do where a running query's plan was written over."""
_V2_LINE = re.compile(r"(\d+):(.*)", re.DOTALL)


class SparkLog:
    """The log files of one query."""

    def __init__(self, files: CheckpointFiles) -> None:
        self.files = files

    # Reading ---------------------------------------------------------------------------------------------------

    def query_id(self) -> str | None:
        """The query's id, stable over restarts; None before the first start."""
        data = self.files.read("metadata")
        if data is None:
            return None
        try:
            return str(json.loads(data)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryMismatchError(
                f"Spark's file {self.files.where('metadata')} is damaged",
                remedy="restore it from a backup; the intent log's first record holds the query id.",
            ) from error

    def batches(self, kind: str) -> list[int]:
        """Batch numbers that `kind` ("offsets" or "commits") holds a file for, ascending."""
        return sorted(int(entry.name) for entry in self.files.entries(kind) if entry.name.isdigit())

    def read(self, kind: str, batch: int) -> str | None:
        """The text of one file, None when it is not there; of a torn one whose bytes are no text, nothing."""
        data = self.files.read(f"{kind}/{batch}")
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return ""  # not what can be read of it: that may look whole

    def is_whole_commit(self, batch: int) -> bool:
        """Whether `commits/N` is there to its end: a version, one JSON object, and what its checksum file says."""
        version, _, body = (self.read("commits", batch) or "").partition("\n")
        try:
            is_object = isinstance(json.loads(body), dict)
        except ValueError:
            return False
        return version.startswith("v") and is_object and self.agrees_with_checksum("commits", batch)

    def agrees_with_checksum(self, kind: str, batch: int) -> bool:
        """Whether the file's bytes are those that its checksum file tells, if it has one."""
        return is_whole(self.files, f"{kind}/{batch}")

    def epoch_input(self, epoch: int, *, stateful: bool) -> EpochInput:
        """The cut of `epoch` as Spark has planned it. `offsets/N` must be there, else `TransientError`.

        That it is there to its end is for who compares it with the plan that the query runs.
        """
        text, before = self.read("offsets", epoch), self.read("offsets", epoch - 1)
        if text is None:
            what = f"Spark runs batch {epoch}, and its offsets/{epoch} is not there"
            raise TransientError(what, epoch=epoch, remedy=RESTART)
        if before is not None and not is_whole_plan(before, 0):
            what = f"Spark runs batch {epoch}, and its offsets/{epoch - 1} is not there to its end"
            raise TransientError(what, epoch=epoch, remedy=RESTART)
        base = self.read("commits", epoch - 1)
        return EpochInput(
            offsets_file=text,
            start=() if before is None else source_offsets(before),
            end=source_offsets(text),
            base_commit=None if base is None else fingerprint(base),
            stateful=stateful,
        )

    # Writing ---------------------------------------------------------------------------------------------------

    def make_durable(self, epoch: int) -> None:
        """Make durable what the intent of `epoch` rests on: `offsets/N`, `commits/N-1`, `metadata` and their names."""
        self.files.make_durable((f"offsets/{epoch}", f"commits/{epoch - 1}", "metadata"))

    def restore(self, kind: str, batch: int, text: str) -> None:
        """Write a file back, durably."""
        self.files.write(f"{kind}/{batch}", text.encode())

    def restore_metadata(self, query_id: str) -> None:
        """Write the query's id back, so that Spark goes on as the same query."""
        self.files.write("metadata", json.dumps({"id": query_id}).encode())

    def move_aside(self, kind: str, batch: int) -> None:
        """Keep a file for people, out of Spark's sight."""
        self.files.move_aside(f"{kind}/{batch}")


def fingerprint(text: str) -> str:
    """The SHA-256 of a file's text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_whole_plan(text: str, sources: int) -> bool:
    """Whether an `offsets/N` file is there to its end, as far as can be told; it has lines for `sources` at least.

    After a power cut it may be empty, end anywhere, or end in zeros.
    """
    version, *lines = text.strip().split("\n")
    return version.startswith("v") and len(lines) > max(1, sources) and all(map(_is_whole_line, lines))


def _is_whole_line(line: str) -> bool:
    """A line of `offsets/N` after its version: JSON, "-" for a source without an offset, in v2 with its index."""
    text = numbered[2] if (numbered := _V2_LINE.fullmatch(line)) else line
    if text == "-":
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def source_offsets(text: str) -> tuple[str, ...]:
    """The sources' offsets in an `offsets/N` file, in the order of the sources.

    Format v1: a version line, a metadata line, one JSON line per source. Format v2 (Spark 4.1+): `index:{...}`
    lines in any order after the metadata. None in a file without its end.
    """
    version, *lines = text.strip().split("\n")
    if version == "v1":
        return tuple(lines[1:])
    numbered = {int(match[1]): match[2] for line in lines if (match := _V2_LINE.fullmatch(line))}
    return tuple(numbered[index] for index in sorted(numbered))
