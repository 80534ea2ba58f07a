"""Owner entries in a directory: a small log of files per pipeline, incarnation and sink.

The file with the highest number is the entry. A successor is put under the next number if that is absent, so of two
processes that replace the same entry one wins. Then older files are removed, except the one before the successor: a
process that lists the directory at that moment still finds one of the two. If a process puts a number that was removed
before, there are files with higher numbers: it lists the directory afterwards, and sees that it came too late.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tpc.sink import Owner
from tpc.sinks.shared.owner_entry import from_text, is_same_term, to_text
from tpc.support.durable_files import put_if_absent, remove

READ_ATTEMPTS = 5


class OwnerDirectory:
    """The entries in one directory, which the first entry creates. Every method raises `OSError`.

    Give each sink of each pipeline and incarnation its own directory, named by `PipelineId.prefix` and the sink's name.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self) -> Owner | None:
        """The newest entry. Raises `CorruptionError` if it is damaged."""
        return self._newest()[1]

    def replace(self, owner: Owner, before: Owner | None) -> bool:
        """Replace `before`, or `owner` itself, by `owner`; False if there is another entry, or none."""
        number, entry = self._newest()
        if not is_same_term(entry, before) and not is_same_term(entry, owner):
            return False
        put_if_absent(self._path(number + 1), to_text(owner).encode())
        newest, entry = self._newest()
        for old in self._numbers():
            if old < newest - 1:
                remove(self._path(old))
        return is_same_term(entry, owner)

    def _newest(self) -> tuple[int, Owner | None]:
        """Number and entry; 0 and None without one. Reads again if a file is removed meanwhile: it has a successor."""
        for _ in range(READ_ATTEMPTS):
            number = max(self._numbers(), default=0)
            if number == 0:
                return 0, None
            path = self._path(number)
            with suppress(FileNotFoundError):
                return number, from_text(path.read_bytes(), str(path))
        raise OSError(f"the owner entry in {self.directory} was replaced {READ_ATTEMPTS} times while it was read")

    def _numbers(self) -> list[int]:
        if not self.directory.is_dir():
            return []
        return [int(path.stem) for path in self.directory.glob("*.json") if path.stem.isdecimal()]

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:016d}.json"
