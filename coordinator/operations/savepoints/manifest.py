"""What a savepoint says of itself: one JSON file in its folder, with the size and the SHA-256 of every other file.

The manifest is put last: a folder without one is no savepoint. It carries a format version of its own beside that of
the log's records; a later version of this library reads every earlier format.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import PipelineId
from tpc.json import JSONObject, canonical, parse
from tpc.records import digest
from tpc.support import durable_files
from tpc.support.names_below import file_below, require_below

FORMAT = 1
FILE_NAME = "savepoint.json"
_AT_MAX = 253_402_300_799
"""The last second of the year 9999."""
DROPPED_FILE = "savepoint.dropped"
"""Put before a savepoint's manifest is deleted, and deleted last: what lies beside it is rubbish."""
CHECKPOINT, LOG = "checkpoint", "log"
"""The folders of a savepoint: Spark's checkpoint, and the records of the log, one file each."""


class Kind(str, Enum):
    """What may happen to a savepoint."""

    MOVE = "move"
    """Its pipeline has ended with it: it goes on from here, or is forked."""
    COPY = "copy"
    """Its pipeline has gone on: it can be forked, nothing else."""


@dataclass(frozen=True)
class SinkShown:
    """A sink at the savepoint: which target, and the newest epoch with rows for it; `asked`: the sink itself said so.

    Else it is what the log says that the sink shows.
    """

    identity: str
    epoch: int | None
    asked: bool


@dataclass(frozen=True)
class SavepointManifest:
    """All that a savepoint says of itself."""

    id: str
    """The same for every savepoint of this kind that is made of the same moment of a log."""
    kind: Kind
    pipeline: PipelineId
    generation: int
    epoch: int
    """The last complete epoch."""
    made_at: float
    """Seconds since 1970."""
    made_by: str
    """The version of this library."""
    state_partitions: int | None
    """Into how many partitions Spark has cut the state, by its own log; None where that does not tell."""
    sinks: Mapping[str, SinkShown]
    files: Mapping[str, tuple[int, str]]
    """Path in the folder -> size in bytes and SHA-256 in hexadecimal."""

    @property
    def size_bytes(self) -> int:
        """All files together."""
        return sum(size for size, _ in self.files.values())

    @property
    def folder_name(self) -> str:
        """The name of the savepoint's folder."""
        return f"{self.pipeline.name}-{self.pipeline.incarnation}-epoch-{self.epoch}-{self.kind.value}-{self.id[:8]}"

    def encode(self) -> bytes:
        """The bytes of the file."""
        body: JSONObject = {
            "format": FORMAT,
            "id": self.id,
            "kind": self.kind.value,
            "pipeline": self.pipeline.name,
            "incarnation": self.pipeline.incarnation,
            "generation": self.generation,
            "epoch": self.epoch,
            "made_at": self.made_at,
            "made_by": self.made_by,
            "state_partitions": self.state_partitions,
            "sinks": {n: {"identity": s.identity, "epoch": s.epoch, "asked": s.asked} for n, s in self.sinks.items()},
            "files": {path: {"size_bytes": size, "sha256": sha} for path, (size, sha) in self.files.items()},
        }
        return canonical({**body, "checksum": digest(canonical(body))}) + b"\n"


def decode(data: bytes, where: str) -> SavepointManifest:
    """The inverse of `encode`. Raises `CorruptionError` for damaged bytes and for a file's name that leads elsewhere,
    `ConfigurationError` for a newer format.
    """
    try:
        body: dict[str, Any] = parse(data)
        checksum = body.pop("checksum")
        whole = digest(canonical(body)) == checksum
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(where) from error
    if not whole:
        raise _damaged(where)
    if not isinstance(body.get("format"), int):
        raise _damaged(where)
    if body["format"] > FORMAT:
        raise ConfigurationError(
            f"the savepoint {where} has format {body['format']}, this version of tpc reads up to {FORMAT}",
            remedy="use the version of tpc that made it, or a newer one.",
        )
    try:
        return _manifest_of(body, where)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(where) from error


def _manifest_of(body: dict[str, Any], where: str) -> SavepointManifest:
    """Its checksum only shows that nothing changed by accident: who writes a manifest can compute one."""
    return SavepointManifest(
        id=_text(body["id"]),
        kind=Kind(body["kind"]),
        pipeline=PipelineId(body["pipeline"], body["incarnation"]),
        generation=_number(body["generation"]),
        epoch=_number(body["epoch"]),
        made_at=_moment(body["made_at"]),
        made_by=_text(body["made_by"]),
        state_partitions=None if body["state_partitions"] is None else _number(body["state_partitions"]),
        sinks={name: _shown(sink) for name, sink in body["sinks"].items()},
        files={
            _name(path, where): (int(file["size_bytes"]), _text(file["sha256"])) for path, file in body["files"].items()
        },
    )


def _name(path: str, where: str) -> str:
    """Of a file, which lies in one of the two folders."""
    if require_below(path, f"the savepoint {where}").partition("/")[0] not in (CHECKPOINT, LOG) or "/" not in path:
        raise ValueError(f"{path!r} is no file of a savepoint")
    return path


def _shown(sink: dict[str, Any]) -> SinkShown:
    epoch = None if sink["epoch"] is None else _number(sink["epoch"])
    return SinkShown(_text(sink["identity"]), epoch, bool(sink["asked"]))


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError("no whole number")
    return value


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _AT_MAX:
        raise TypeError("no time in seconds since 1970")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _damaged(where: str) -> CorruptionError:
    return CorruptionError(
        f"{FILE_NAME} of the savepoint {where} is damaged", remedy="copy the savepoint again from where it is whole."
    )


def read_manifest(folder: Path) -> SavepointManifest:
    """What the savepoint in `folder` says of itself. Raises `ConfigurationError` where none is, and as `decode`."""
    try:
        return decode(file_below(folder, FILE_NAME, f"the savepoint {folder}").read_bytes(), str(folder))
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigurationError(
            f"{folder} is no savepoint: it holds no {FILE_NAME}",
            remedy="name the folder that `tpc savepoint` has printed; one whose making was interrupted has none.",
        ) from None
    except OSError as error:
        raise ConfigurationError(
            f"the savepoint {folder} cannot be read: {durable_files.in_words(error)}",
            remedy="run this as somebody who may read the whole folder.",
        ) from error


def files_below(folder: Path) -> list[str]:
    """The paths of all files below `folder`, from there, sorted."""
    found = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sorted(path.relative_to(folder).as_posix() for path in found)
