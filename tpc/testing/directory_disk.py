"""The disk of the reference sink: durable operations, names, owner entries; its errors are of `tpc.errors`, in time."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import pyarrow

from tpc.errors import CorruptionError, TransientError
from tpc.handles import Handle
from tpc.sink import InDoubt, Owner
from tpc.testing.deadlines import within

Result = TypeVar("Result")

DIRECTORIES_MADE = 3
"""How many directories above a file may be new with it, and have to be durable with it."""


def ask(sink: str, doing: str, call: Callable[[], Result], timeout_s: float) -> Result:
    """What the disk answers. Raises `TransientError` when it fails or does not answer in time."""
    try:
        return within(timeout_s, call)
    except OSError as error:
        raise TransientError(f"{doing} failed: {error.strerror or error}", sink=sink) from error


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a branch's file."""
    with pyarrow.ipc.open_stream(str(path)) as stream:
        rows: list[dict[str, Any]] = stream.read_all().to_pylist()
    return rows


def sync(path: Path) -> None:
    """fsync a file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_if_absent(path: Path, text: str) -> None:
    """Make a file with this text, durably and never in part, unless one of that name is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}")
    temporary.write_text(text)
    sync(temporary)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
        for directory in list(path.parents)[:DIRECTORIES_MADE]:
            sync(directory)


def handles_of(name: str) -> list[Handle]:
    """The handle that a file's name is; none, if the name only looks like one."""
    try:
        return [Handle.parse(name)]
    except CorruptionError:
        return []


def in_doubt(handle: Handle) -> InDoubt:
    """A branch as recovery lists it."""
    return InDoubt(str(handle), handle.pipeline, handle.generation, handle.sink, handle.epoch)


class OwnerEntries:
    """The owner entries of one pipeline and sink: numbered files, of which the last one counts.

    Each number is put if absent, so that of two coordinators that saw the same entry only one puts the next.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.directory = root / "owners" / name

    def read(self) -> tuple[Owner | None, int]:
        """The entry that counts, and the number of the next one."""
        if self.root.exists():
            list(self.root.iterdir())  # raises when the whole directory is away
        paths = sorted(self.directory.glob("[0-9]*"))
        return (Owner(**json.loads(paths[-1].read_text())) if paths else None), len(paths)

    def take(self, owner: Owner, before: Owner | None) -> bool:
        """Put `owner` after `before`; False when another entry counts."""
        found, number = self.read()
        if found == before and found != owner:
            put_if_absent(self.directory / f"{number:08d}", json.dumps(asdict(owner)))
            found, _ = self.read()
        return found == owner
