"""The lines of a file that others append to. A position is the number of its bytes that have been read."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from tpc.errors import ConfigurationError, StateLostError, TransientError
from tpc.parameter_types import kinds_checked
from tpc.source import Origin, Part, Source, SourceReader, decoded
from tpc.user_code import require_plain, storable

logger = logging.getLogger(__name__)

KNOWN_BYTES = 1024
"""So many of the first bytes of what was read, and of the last, are what a file is known by."""
UNENDED_S = 60.0
"""A line whose end has not come for so long is told of."""


class LinesSource(Source):
    """Each whole line of `path` without its end; a line that has no end yet is waited for.

    What was read must stay as it is: a file that was truncated, or replaced by another one, is refused, also where it
    has grown past the position since. It is known by the first and the last 1,024 bytes that were read.

    Events are text (UTF-8), or what `decode` makes of a line's bytes, each time the same. A line of which it raises is
    a `DataError` that names file and byte, or a dead letter.
    """

    kind = "lines"
    start_varies = False
    if_recreated = (
        "put the file back as it was: lines may only come at its end. Or read it under another name (name=...), and "
        "retire this one: then it is read from its beginning."
    )

    @kinds_checked
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
        self._file: io.FileIO | None = None
        self._polled: list[bytes] = []
        self._position = 0
        self._read_to = 0
        self._is_exhausted = False
        self._at_position = (b"", b"")
        self._first, self._last = b"", b""
        """What is known of what was read: its first bytes, and its last."""
        self._unended: tuple[int, float] | None = None
        """Where a line begins that has no end, and since when it is known."""
        self._told_of = -1
        """The last such line that was told of."""

    def seek(self, position: str | None) -> None:
        self._position = self._read_to = 0 if position is None else int(position)
        self._polled = []
        try:
            file = self._opened()
            self._first, self._last = self._at_position = self._known_of(file)
            self._check(file)
        except OSError as error:
            raise TransientError(f"{self._shown} cannot be read: {error.strerror}") from error

    def _check(self, file: io.FileIO) -> None:
        """Stand after what was read, in a file that still looks like the one it was read from."""
        opened, found = os.fstat(file.fileno()), self._path.stat()
        if (opened.st_dev, opened.st_ino) != (found.st_dev, found.st_ino):
            raise self._lost("is another file than the one that is being read")
        if opened.st_size < self._read_to:
            raise self._lost(f"has {opened.st_size} bytes, and {self._read_to} of it were read before")
        if self._read_to:
            if not self._last.endswith(b"\n"):
                raise self._lost(f"has no line that ends at byte {self._read_to}, to which it was read before")
            if self._known_of(file) != (self._first, self._last):
                raise self._lost(f"has other lines before byte {self._read_to} than those that were read")

    def _known_of(self, file: io.FileIO) -> tuple[bytes, bytes]:
        """The first and the last bytes of what was read, as the file has them now."""
        return self._known_at(file, self._read_to)

    @staticmethod
    def _known_at(file: io.FileIO, end: int) -> tuple[bytes, bytes]:
        number, length = file.fileno(), min(end, KNOWN_BYTES)
        return os.pread(number, length, 0), os.pread(number, length, end - length)

    def identities(self) -> Mapping[str, str]:
        if not self._position:
            return {}
        first, last = self._at_position
        return {f"what was read up to byte {self._position}": hashlib.sha256(first + b"|" + last).hexdigest()[:32]}

    def _lost(self, what: str) -> StateLostError:
        remedy = "put the file back as it was; lines may only come at its end."
        return StateLostError(f"{self._shown} {what}", remedy=remedy)

    def _opened(self) -> io.FileIO:
        if self._file is None:
            try:
                self._file = io.FileIO(self._path)
            except (IsADirectoryError, ValueError) as error:
                raise ConfigurationError(
                    f"{self._shown} is no file: {error.strerror if isinstance(error, OSError) else error}",
                    remedy="give LinesSource the path of a file whose lines it reads.",
                ) from error
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
        taken, began, new = 0, self._read_to, list[bytes]()
        most = None if end is not None else self.poll_bytes
        try:
            file = self._opened()
            self._check(file)
            file.seek(self._read_to)
            lines = io.BufferedReader(file)  # of its own: an older buffer may hold what was written over since
            self._is_exhausted = False
            while (rows is None or taken < rows) and (end is None or self._read_to < end):
                if most is not None and self._read_to - began >= most:
                    break
                line = lines.readline()
                if not line.endswith(b"\n"):
                    self._is_exhausted = True
                    self._look_at_unended(line)
                    break
                new.append(line)
                self._read_to += len(line)
                taken += 1
            lines.detach()
            self._check_again(file, began)
            self._take_in(new)
            self._check_again(file, self._read_to)
        except OSError as error:
            raise TransientError(f"{self._shown} cannot be read: {error.strerror}") from error
        return taken

    def _check_again(self, file: io.FileIO, began: int) -> None:
        """It may have been written over while it was read: what is known up to this byte must be there still."""
        if began and self._known_at(file, began) != (self._first, self._last):
            raise self._lost(f"has other lines before byte {began} than those that were read")

    def _take_in(self, new: list[bytes]) -> None:
        self._polled += [line[:-1] for line in new]
        if len(self._first) < KNOWN_BYTES:
            self._first = b"".join([self._first, *_known(new)])[:KNOWN_BYTES]
        self._last = b"".join([self._last, *reversed(_known(reversed(new)))])[-KNOWN_BYTES:]

    def _look_at_unended(self, line: bytes) -> None:
        if not line:
            self._unended = None
        elif self._unended is None or self._unended[0] != self._read_to:
            self._unended = (self._read_to, time.monotonic())
        elif time.monotonic() - self._unended[1] >= UNENDED_S:
            self._tell_unended()

    def _tell_unended(self) -> None:
        if self._unended is not None and self._told_of != self._unended[0]:
            self._told_of = self._unended[0]
            logger.warning(
                "%s: the line that begins at byte %d has no end yet. It is read when that has come",
                *(self._shown, self._unended[0]),
            )

    def polled_bytes(self) -> int:
        return self._read_to - self._position

    def cut(self) -> list[Part]:
        lines, self._polled, start = self._polled, [], self._position
        self._position, self._at_position = self._read_to, (self._first, self._last)
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
        self._tell_unended()
        if self._file is not None:
            self._file.close()
            self._file = None


def _known(lines: Iterable[bytes]) -> list[bytes]:
    """The first of these that are together as long as what is known of a file."""
    taken, length = list[bytes](), 0
    for line in lines:
        if length >= KNOWN_BYTES:
            break
        taken.append(line)
        length += len(line)
    return taken
