"""The files of a checkpoint, wherever Spark keeps it: read, listed, written whole or not at all, made durable.

Names are those below the checkpoint: `offsets/3`. A directory of this machine is `local_files.py`, everything
else that Spark can use `spark_files.py`. What is in a file is the affair of those who ask: `query_log.py`,
`state_store_files.py`, `source_logs.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tpc.coordinator.kernel.checkpoint import Checkpoint


@dataclass(frozen=True)
class Entry:
    """What a folder holds under a name."""

    name: str
    """Without the folder's."""
    is_folder: bool
    size_bytes: int


class FilesOfEpoch(Protocol):
    """The files that one epoch rests on."""

    def wait(self) -> None:
        """Return when all of them are durable. Raises `TransientError` where one cannot be made so."""


class Durability(Protocol):
    """Makes durable what Spark has written for the batches to come, while the pass runs."""

    def begin(self) -> FilesOfEpoch:
        """Begin with what is new since the last epoch."""

    def close(self) -> None:
        """Nothing is asked for any more."""


class CheckpointFiles(Checkpoint):
    """One checkpoint. Its text is what Spark is told."""

    can_tear: bool = True
    """Whether a file may be there in part after a crash; False where it is there whole or not at all."""

    def where(self, name: str) -> str:
        """Where a file is, for people."""
        return f"{self}/{name}"

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content; None where there is no such file. Of a file whose content is lost, what is left of it."""

    def read_whole(self, name: str) -> bytes | None:
        """The content; None where the file is not there, holds nothing, or is known to be another than was written."""
        data = self.read(name)
        return data if data and data.strip(b"\0") else None

    @abstractmethod
    def entries(self, folder: str) -> list[Entry]:
        """What is in a folder, by name, checksum files apart; nothing where there is no such folder."""

    def below(self, folder: str, *, leave_out: Collection[str] = ()) -> Iterator[str]:
        """The names of all files below a folder, those in folders of the names `leave_out` apart."""
        for entry in self.entries(folder):
            name = f"{folder}/{entry.name}"
            if not entry.is_folder:
                yield name
            elif entry.name not in leave_out:
                yield from self.below(name, leave_out=leave_out)

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Make the file hold `data`, durably, and whole or not at all: a torn one would look like another."""

    @abstractmethod
    def move_aside(self, name: str) -> None:
        """Keep a file for people, below `tpc/moved-aside`, out of Spark's sight."""

    @abstractmethod
    def make_durable(self, names: Iterable[str]) -> None:
        """Make those of the files durable that are there, which Spark has written, and their names.

        Raises `TransientError`.
        """

    @abstractmethod
    def background_fsync(self) -> Durability:
        """For the files of the state stores and of the sources, for one process."""
