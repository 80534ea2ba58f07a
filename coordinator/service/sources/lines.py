"""The lines of a file that others append to. A position is the number of its bytes that have been read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from tpc.errors import StateLostError, TransientError
from tpc.source import Origin, Part, Source, SourceReader, decoded
from tpc.user_code import require_plain, storable


class LinesSource(Source):
    """Each whole line of `path` without its end; a line that has no end yet is waited for.

    Events are text (UTF-8), or what `decode` makes of a line's bytes, each time the same. A line of which it raises is
    a `DataError` that names file and byte, or a dead letter.
    """

    kind = "lines"
    begins_anew = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        decode: Callable[[bytes], Any] = bytes.decode,
    ) -> None:
        super().__init__(Path(path).stem if name is None else name)
        self.path = Path(path)
        self.place = storable(str(self.path.absolute()))
        require_plain(decode, "decode= of a LinesSource")
        self.decode = decode

    def reader(self) -> SourceReader:
        """See `Source`."""
        return _LinesReader(self.path, self.place, self.decode)


class _LinesReader(SourceReader):
    def __init__(self, path: Path, shown: str, decode: Callable[[bytes], Any]) -> None:
        self._path = path
        self._shown = shown
        """The path, for people."""
        self._decode = decode
        self._file: BinaryIO | None = None
        self._polled: list[bytes] = []
        self._position = 0
        self._read_to = 0
        self._is_exhausted = False

    def seek(self, position: str | None) -> None:
        self._position = self._read_to = 0 if position is None else int(position)
        self._polled = []
        try:
            self._check(self._opened())
        except OSError as error:
            raise TransientError(f"{self._shown} cannot be read: {error.strerror}") from error

    def _check(self, file: BinaryIO) -> None:
        """Stand after what was read, in a file that still looks like the one it was read from."""
        opened, found = os.fstat(file.fileno()), self._path.stat()
        if (opened.st_dev, opened.st_ino) != (found.st_dev, found.st_ino):
            raise self._lost("is another file than the one that is being read")
        if opened.st_size < self._read_to:
            raise self._lost(f"has {opened.st_size} bytes, and {self._read_to} of it were read before")
        if self._read_to:
            file.seek(self._read_to - 1)
            if file.read(1) != b"\n":
                raise self._lost(f"has no line that ends at byte {self._read_to}, to which it was read before")

    def _lost(self, what: str) -> StateLostError:
        remedy = "put the file back as it was; lines may only come at its end."
        return StateLostError(f"{self._shown} {what}", remedy=remedy)

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = self._path.open("rb")
        return self._file

    def position(self) -> str:
        return str(self._position)

    def poll(self, rows: int, timeout_s: float) -> int:
        was_exhausted = self._is_exhausted
        came = self._take(rows, None)
        if not came and was_exhausted:
            time.sleep(timeout_s)  # nobody tells when there is more
        return came

    def _take(self, rows: int | None, end: int | None) -> int:
        taken = 0
        try:
            file = self._opened()
            self._check(file)
            file.seek(self._read_to)
            self._is_exhausted = False
            while (rows is None or taken < rows) and (end is None or self._read_to < end):
                line = file.readline()
                if not line.endswith(b"\n"):
                    self._is_exhausted = True
                    break
                self._polled.append(line[:-1])
                self._read_to += len(line)
                taken += 1
        except OSError as error:
            raise TransientError(f"{self._shown} cannot be read: {error.strerror}") from error
        return taken

    def cut(self) -> list[Part]:
        lines, self._polled, start = self._polled, [], self._position
        self._position = self._read_to
        return [self._part(lines, start, self._is_exhausted)]

    def _part(self, lines: list[bytes], start: int, is_ended: bool) -> Part:
        starts: list[int] = []

        def origin(index: int) -> Origin:
            if not starts:
                starts.extend(accumulate((len(line) + 1 for line in lines), initial=start))
            return Origin(f"file {self._shown}, byte {starts[index]}", None, lines[index])

        events, refused = decoded(lines, self._decode)
        return Part("", events, is_ended, refused, origin, lambda: self._part(lines, start, is_ended))

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        self._take(None, int(end))
        if self._read_to != int(end):
            raise StateLostError(f"{self._shown} has no line that ends at byte {end}, to which it was read before")
        return self.cut()

    def is_exhausted(self) -> bool:
        return self._is_exhausted

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
