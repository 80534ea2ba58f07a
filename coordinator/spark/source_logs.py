"""The sources' own logs in a checkpoint, `sources/I/K`: what a power cut has left torn, and what is to be done then.

The file source writes down in `K` which files it has found new, and in `K.compact` all that it has found up to then;
its offset in `offsets/N` is the newest `K`. What no decided epoch has read it finds again. Of what one has read, the
list is made again from a newer compact file. Other sources write `0` when they begin: where they began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.query_log import SparkLog, is_whole_plan, source_offsets
from tpc.coordinator.spark.source_descriptions import readers, relations
from tpc.coordinator.spark.usable_commit import RESTORE
from tpc.coordinator.spark.whole_files import is_whole
from tpc.errors import StateLostError
from tpc.history import History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME = re.compile(r"(\d+)(\.compact)?")


@dataclass
class SourceRepair:
    """What is to be done before Spark reads the sources' logs."""

    set_aside: list[str] = field(default_factory=list)
    """Torn or out of their order, and not needed: Spark writes them again."""
    restored: dict[str, str] = field(default_factory=dict)
    """Torn, with the text that they had."""
    known_to: dict[int, int] = field(default_factory=dict)
    """By file source, the newest of its lists that is left."""
    begins_anew: bool = False
    """Whether a source has lost where it began, and nothing is decided."""
    folders: Sequence[int] = ()
    """See `source_folders`."""

    def is_torn_plan(self, text: str) -> bool:
        """Whether an undecided plan names a list of files that is not there, or begins where nobody knows."""
        offsets = by_folder(source_offsets(text), self.folders)
        named = ((index, _file_offset(offset)) for index, offset in offsets.items())
        return self.begins_anew or any(k is not None and k > self.known_to.get(index, -1) for index, k in named)


@dataclass(frozen=True)
class _FileLog:
    """The log of a file source: its whole files by offset."""

    folder: str
    where: str
    """Where the folder is, for people."""
    found: frozenset[int]
    """The offsets of all of them, torn ones too."""
    lists: dict[int, list[str]]
    """What a list names, in lines of JSON; of a compact one what it names for its own offset is in it too."""
    compact: frozenset[int]
    """Those that can be read."""
    compact_names: frozenset[int]
    """Those that are there, torn ones too."""

    def name(self, k: int) -> str:
        """The file of an offset."""
        return f"{self.folder}/{k}.compact" if k in self.compact_names else f"{self.folder}/{k}"


def look_at_sources(history: History, spark: SparkLog, committed: int, folders: Sequence[int]) -> SourceRepair:
    """What is torn in the sources' logs. Raises `StateLostError` where decided epochs rest on it; changes nothing.

    `committed` is the commit that Spark goes on from, `folders` what `source_folders` tells of the query.
    """
    repair = SourceRepair(folders=folders)
    decided = history.last_intent is not None
    ends = by_folder(_decided_ends(history, spark), folders)
    there = {int(one.name) for one in spark.files.entries("sources") if one.is_folder and one.name.isdigit()}
    for index in sorted(there | {index for index, end in ends.items() if _file_offset(end) is not None}):
        decided_to = _file_offset(ends.get(index, ""))
        log = _read_log(spark.files, f"sources/{index}")
        if decided_to is not None or log.lists:
            _look_at_files(log, index, -1 if decided_to is None else decided_to, repair)
        else:
            _look_at_beginning(spark.files, f"{log.folder}/0", committed, decided=decided, repair=repair)
    return repair


def _decided_ends(history: History, spark: SparkLog) -> tuple[str, ...]:
    """Where the sources stand after the last decided epoch; nothing where none is decided.

    The log of an adopted query, or of a fork, begins after an epoch of which it holds no manifest: Spark's own plan of
    it, which was copied with the sources' logs, tells.
    """
    epoch = history.last_intent
    if epoch is None:
        return ()
    if (manifest := history.manifests.get(epoch)) is not None:
        return manifest.epoch_input.end
    plan = spark.read("offsets", epoch) if spark.agrees_with_checksum("offsets", epoch) else None
    if plan is None or not is_whole_plan(plan, 0):
        where = spark.files.where(f"offsets/{epoch}")
        raise StateLostError(
            f"{where} is torn or gone: it alone tells what the sources had read when the log began",
            epoch=epoch,
            remedy="put that file back from a backup, or from where this checkpoint was copied from; otherwise "
            f"{RESTORE}",
        )
    return source_offsets(plan)


def _look_at_files(log: _FileLog, index: int, decided: int, repair: SourceRepair) -> None:
    newest_compact = max((k for k in log.compact if k <= decided), default=-1)
    for k in sorted(log.found | set(range(newest_compact + 1, decided + 1))):
        if k > decided or k in log.lists:
            continue
        repair.restored[log.name(k)] = _made_again(log, k)
    left = decided
    while left + 1 in log.lists:
        left += 1
    repair.known_to[index] = left
    repair.set_aside += [log.name(k) for k in sorted(log.found) if k > left]


def _look_at_beginning(
    files: CheckpointFiles, name: str, committed: int, *, decided: bool, repair: SourceRepair
) -> None:
    """Where a source began; asked for only to run batch 0."""
    if files.read(name) is None or is_whole(files, name):
        return
    if decided and committed < 0:
        where = files.where(name)
        raise StateLostError(f"{where}, where the source began, is torn, and batch 0 must be run again", epoch=0)
    repair.set_aside.append(name)
    repair.begins_anew = repair.begins_anew or not decided


def _made_again(log: _FileLog, k: int) -> str:
    """The text of a list that is torn or gone, from a newer compact one."""
    newer = min((c for c in log.compact if c >= k), default=None)
    if newer is None:
        raise StateLostError(
            f"{log.where}/{k} is torn or gone: it names the files that decided epochs have read up to offset {k}"
        )
    is_compact = k in log.compact_names
    wanted = (line for line in log.lists[newer] if _batch(line) == k or (is_compact and _batch(line) < k))
    return "\n".join(["v1", *wanted])


def _read_log(files: CheckpointFiles, folder: str) -> _FileLog:
    found, lists, compact, whole_compact = set(), {}, set(), set()
    for entry in files.entries(folder):
        if not (match := _NAME.fullmatch(entry.name)):
            continue
        k = int(match[1])
        found.add(k)
        if match[2]:
            compact.add(k)
        if (lines := _lines(files.read_whole(f"{folder}/{entry.name}"))) is not None:
            lists[k] = lines
            if match[2]:
                whole_compact.add(k)
    where = files.where(folder)
    return _FileLog(folder, where, frozenset(found), lists, frozenset(whole_compact), frozenset(compact))


def _lines(data: bytes | None) -> list[str] | None:
    """The lines of a list after its version; None when it is torn."""
    if data is None:
        return None
    version, *lines = data.decode(errors="replace").split("\n")
    try:
        numbers = [_batch(line) for line in lines]
    except (ValueError, KeyError, TypeError):
        return None
    return lines if version.startswith("v") and numbers else None


def _batch(line: str) -> int:
    """The offset of the list that a file was first named in."""
    return int(json.loads(line)["batchId"])


def _file_offset(offset: str) -> int | None:
    """The offset of a file source; None for one of another source, or none."""
    try:
        value = json.loads(offset)
    except ValueError:  # "-": a source that has no offset yet
        return None
    return int(value["logOffset"]) if isinstance(value, dict) and "logOffset" in value else None


# Which folder of `sources/` belongs to which line of `offsets/N`: a source that a query reads twice has one folder.
#
# Spark makes one source of equal relations (a DataFrame in a union with itself), and numbers the folders by the
# sources. The lines of `offsets/N` are by the relations, in format v1 (PySpark 4.0.5, tried with unions, joins and
# CTEs). Format v2 has a line for each source.


def source_folders(frame: DataFrame) -> tuple[int, ...]:
    """For each relation of a streaming DataFrame, in Spark's order, the number of its source's folder."""
    return readers(relations(frame))


def by_folder(lines: Sequence[str], folders: Sequence[int]) -> dict[int, str]:
    """Folder -> its line, of the lines of one `offsets/N`.

    Where `folders` are not those of these lines, as in format v2, each line has its own.
    """
    numbers = folders if len(folders) == len(lines) else range(len(lines))
    return dict(zip(numbers, lines, strict=True))
