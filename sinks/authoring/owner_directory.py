"""Owner entries in a directory: a small log of files per pipeline, incarnation and sink.

The newest number is the entry. A successor is put under the next number if that is absent, so of two that replace the
same entry one wins; then older files go, but for the last one before it: whoever lists the directory at that moment
still finds one of the two. A number that was free because it had been removed has higher ones after it: its putter
looks, and knows that it came too late.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tpc.sink import Owner
from tpc.sinks.shared.owner_entry import from_text, is_same_term, to_text
from tpc.support.durable_files import put_if_absent, remove

READ_ATTEMPTS = 5


class OwnerDirectory:
    """The entries in one directory, which the first entry makes. Every method raises `OSError`.

    Give each sink of each pipeline and incarnation a directory of its own, `PipelineId.prefix` and the sink's name say.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self) -> Owner | None:
        """The newest entry. Raises `CorruptionError` when it is damaged."""
        return self._newest()[1]

    def replace(self, owner: Owner, before: Owner | None) -> bool:
        """Put `owner` in the place of `before`, or of itself; False when another entry stands there, or none."""
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
        """Number and entry; a file that goes between listing and reading has a successor. 0 and None without one."""
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
