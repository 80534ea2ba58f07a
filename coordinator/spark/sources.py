"""The sources' own logs in a checkpoint, `sources/I/K`: what a power cut has left torn, and what is to be done then.

The file source writes down in `K` which files it has found new, and in `K.compact` all that it has found up to then;
its offset in `offsets/N` is the newest `K`. What no decided epoch has read it finds again. Of what one has read, the
list is made again from a newer compact file. Other sources write `0` when they begin: where they began.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tpc.coordinator.spark.query_log import SparkLog, source_offsets
from tpc.coordinator.spark.whole_files import is_whole
from tpc.errors import StateLostError
from tpc.history import History

_NAME = re.compile(r"(\d+)(\.compact)?")


@dataclass
class Mending:
    """What is to be done before Spark reads the sources' logs."""

    set_aside: list[Path] = field(default_factory=list)
    """Torn or out of their order, and not needed: Spark writes them anew."""
    restored: dict[Path, str] = field(default_factory=dict)
    """Torn, with the text that they had."""
    known_to: dict[int, int] = field(default_factory=dict)
    """By file source, the newest of its lists that is left."""
    begins_anew: bool = False
    """Whether a source has lost where it began, and nothing is decided."""

    def is_torn_plan(self, text: str) -> bool:
        """Whether an undecided plan names a list of files that is not there, or begins where nobody knows."""
        named = ((index, _file_offset(offset)) for index, offset in enumerate(source_offsets(text)))
        return self.begins_anew or any(k is not None and k > self.known_to.get(index, -1) for index, k in named)


@dataclass(frozen=True)
class _FileLog:
    """The log of a file source: its whole files by offset."""

    folder: Path
    found: frozenset[int]
    """The offsets of all of them, torn ones too."""
    lists: dict[int, list[str]]
    """What a list names, in lines of JSON; of a compact one what it names for its own offset is in it too."""
    compact: frozenset[int]


def look_at_sources(history: History, spark: SparkLog, committed: int) -> Mending:
    """What is torn in the sources' logs. Raises `StateLostError` where decided epochs rest on it; changes nothing.

    `committed` is the commit that Spark goes on from.
    """
    mending = Mending()
    last = None if history.last_intent is None else history.manifests.get(history.last_intent)
    ends = () if last is None else last.barrier.end
    for folder in sorted((spark.checkpoint / "sources").glob("*/")):
        if not folder.name.isdigit():
            continue
        index = int(folder.name)
        end = ends[index] if index < len(ends) else ""
        decided_to = _file_offset(end)
        if decided_to is not None or _is_file_log(folder):
            _look_at_files(_read_log(folder), index, -1 if decided_to is None else decided_to, mending)
        else:
            _look_at_beginning(folder / "0", committed, decided=last is not None, mending=mending)
    return mending


def _look_at_files(log: _FileLog, index: int, decided: int, mending: Mending) -> None:
    newest_compact = max((k for k in log.compact if k <= decided), default=-1)
    for k in sorted(log.found | set(range(newest_compact + 1, decided + 1))):
        if k > decided or k in log.lists:
            continue
        mending.restored[_path(log, k)] = _made_again(log, k)
    left = decided
    while left + 1 in log.lists:
        left += 1
    mending.known_to[index] = left
    mending.set_aside += [_path(log, k) for k in sorted(log.found) if k > left]


def _look_at_beginning(path: Path, committed: int, *, decided: bool, mending: Mending) -> None:
    """Where a source began; asked for only to run batch 0."""
    if not path.exists() or is_whole(path):
        return
    if decided and committed < 0:
        raise StateLostError(f"{path}, where the source began, is torn, and batch 0 must be run again", epoch=0)
    mending.set_aside.append(path)
    mending.begins_anew = mending.begins_anew or not decided


def _made_again(log: _FileLog, k: int) -> str:
    """The text of a list that is torn or gone, from a newer compact one."""
    newer = min((c for c in log.compact if c >= k), default=None)
    if newer is None:
        raise StateLostError(
            f"{log.folder / str(k)} is torn or gone: it names the files that decided epochs have read up to offset {k}"
        )
    compact = _path(log, k).suffix == ".compact"
    wanted = (line for line in log.lists[newer] if _batch(line) == k or (compact and _batch(line) < k))
    return "\n".join(["v1", *wanted])


def _path(log: _FileLog, k: int) -> Path:
    compact = log.folder / f"{k}.compact"
    return compact if compact.exists() else log.folder / str(k)


def _read_log(folder: Path) -> _FileLog:
    found, lists, compact = set(), {}, set()
    for path in folder.iterdir():
        if not (match := _NAME.fullmatch(path.name)):
            continue
        k = int(match[1])
        found.add(k)
        if (lines := _lines(path)) is not None:
            lists[k] = lines
            if match[2]:
                compact.add(k)
    return _FileLog(folder, frozenset(found), lists, frozenset(compact))


def _lines(path: Path) -> list[str] | None:
    """The lines of a list after its version; None when it is torn."""
    if not is_whole(path):
        return None
    version, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    try:
        numbers = [_batch(line) for line in lines]
    except (ValueError, KeyError, TypeError):
        return None
    return lines if version.startswith("v") and numbers else None


def _batch(line: str) -> int:
    """The offset of the list that a file was first named in."""
    return int(json.loads(line)["batchId"])


def _is_file_log(folder: Path) -> bool:
    """Whether any file in it can be read as a list of files."""
    return any(_NAME.fullmatch(path.name) and _lines(path) is not None for path in folder.iterdir())


def _file_offset(offset: str) -> int | None:
    """The offset of a file source; None for one of another source, or none."""
    try:
        value = json.loads(offset)
    except ValueError:  # "-": a source that has no offset yet
        return None
    return int(value["logOffset"]) if isinstance(value, dict) and "logOffset" in value else None
