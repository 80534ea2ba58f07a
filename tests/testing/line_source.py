"""A source for the kit of sources, which keeps the whole contract: the files of a directory, each one a partition.

The directory is the system: `first.json` says which bytes it has lost, `id` which directory it is, and while there is a
file `away` nothing answers. `open.json` says from which byte on a partition has lines of a writer that is not done.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from tpc.errors import StateLostError, TransientError
from tpc.shards import Shard
from tpc.source import Origin, Part, Source, SourceReader, decoded

PARTITIONS = 3
Ends = dict[str, int]
"""Partition -> the byte up to which it is read."""


class LineSystem:
    """What the tests do to the directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.create()

    def create(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for partition in range(PARTITIONS):
            (self.directory / f"{partition}.jsonl").write_bytes(b"")
        (self.directory / "first.json").write_text(json.dumps({}))
        (self.directory / "id").write_text(uuid.uuid4().hex)

    def feed(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            with (self.directory / f"{number % PARTITIONS}.jsonl").open("ab") as file:
                file.write(json.dumps({"n": number}).encode() + b"\n")

    def spoil(self) -> None:
        """Feed a line that is no JSON."""
        with (self.directory / "1.jsonl").open("ab") as file:
            file.write(b"{\n")

    def begin(self, numbers: Sequence[int]) -> Callable[[], None]:
        """Feed numbers that nobody may read before the answer is called."""
        (self.directory / "open.json").write_text(json.dumps(self.sizes()))
        self.feed(numbers)
        return (self.directory / "open.json").unlink

    def sizes(self) -> Ends:
        return {f"{n}": (self.directory / f"{n}.jsonl").stat().st_size for n in range(PARTITIONS)}

    def lose(self) -> None:
        (self.directory / "first.json").write_text(json.dumps(self.sizes()))

    @contextmanager
    def outage(self) -> Iterator[None]:
        (self.directory / "away").touch()
        try:
            yield
        finally:
            (self.directory / "away").unlink()


class LineSource(Source):
    kind = "numbered files"
    start_varies = False

    def __init__(
        self,
        directory: Path,
        password: str = "",
        reader: type[LineReader] | None = None,
        partitions: Sequence[int] = range(PARTITIONS),
    ) -> None:
        super().__init__("numbers")
        self.directory = directory
        self.password = password
        self.reader_class = reader or LineReader
        self.numbers = tuple(partitions)

    def reader(self) -> SourceReader:
        return self.reader_class(self)

    def sharded(self, shard: Shard) -> Source:
        return self.of([n for n in self.numbers if shard.takes(n)])

    def of(self, partitions: Sequence[int]) -> Source:
        """Some of the partitions."""
        return type(self)(self.directory, self.password, self.reader_class, partitions)

    def __repr__(self) -> str:
        return f"LineSource({str(self.directory)!r})"


class LineReader(SourceReader):
    reads_ahead = True

    def __init__(self, source: LineSource) -> None:
        self.directory = source.directory
        self.names = [f"{number}" for number in source.numbers]
        self.ends: Ends = {}
        self.polled_to: Ends = {}
        self.lines: dict[str, list[bytes]] = {}
        self.found = False

    def seek(self, position: str | None) -> None:
        self.require_there()
        first = json.loads((self.directory / "first.json").read_text())
        ends = dict.fromkeys(self.names, 0) if position is None else json.loads(position)
        for name, end in ends.items():
            if position is not None and end < first.get(name, 0):
                raise StateLostError(f"partition {name} begins at byte {first[name]}, after byte {end}")
        self.ends = {name: max(ends[name], first.get(name, 0)) for name in self.names}
        self.polled_to = dict(self.ends)
        self.lines = {name: [] for name in self.names}
        self.found = False

    def require_not_lost(self) -> None:
        """What is to be read next, and what is read and not cut, is there."""
        first = json.loads((self.directory / "first.json").read_text())
        for name in self.names:
            if self.polled_to[name] < first.get(name, 0):
                raise StateLostError(f"partition {name} begins at byte {first[name]}")

    def require_there(self) -> None:
        if (self.directory / "away").exists():
            raise TransientError("the directory is away")

    def identities(self) -> Mapping[str, str]:
        return {"directory": (self.directory / "id").read_text()}

    def position(self) -> str:
        return json.dumps(self.ends)

    def poll(self, rows: int, timeout_s: float) -> int:
        self.require_there()
        self.require_not_lost()
        deadline = time.monotonic() + timeout_s
        while not (came := self.take(rows)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return came

    def take(self, rows: int) -> int:
        came, is_full, already = 0, False, self.size()
        self.found = True
        upto = self.open_from()
        for name in self.names:
            with (self.directory / f"{name}.jsonl").open("rb") as file:
                file.seek(self.polled_to[name])
                for line in file:
                    if self.polled_to[name] >= upto.get(name, math.inf):
                        break
                    is_full = came == rows or (self.poll_bytes is not None and self.size() - already >= self.poll_bytes)
                    if is_full:
                        break
                    self.lines[name].append(line)
                    self.polled_to[name] += len(line)
                    came += 1
            self.found = self.found and not is_full
        return came

    def open_from(self) -> Ends:
        """From which byte on lines may be those of a writer that is not done."""
        with suppress(FileNotFoundError):
            found: Ends = json.loads((self.directory / "open.json").read_text())
            return found
        return {}

    def size(self) -> int:
        return sum(len(line) for lines in self.lines.values() for line in lines)

    def polled_bytes(self) -> int | None:
        return self.size()

    def cut(self) -> list[Part]:
        parts = [self.part(name, self.lines[name], self.ends[name]) for name in self.names]
        self.ends, self.lines = dict(self.polled_to), {name: [] for name in self.names}
        return parts

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        events, refused = decoded(lines, json.loads)
        starts = list(accumulate((len(line) for line in lines), initial=start))
        return Part(
            name,
            events,
            self.found,
            refused,
            lambda index: Origin(f"file {name}, byte {starts[index]}"),
            lambda: self.part(name, lines, start),
        )

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        self.require_there()
        for name, upto in json.loads(end).items():
            with (self.directory / f"{name}.jsonl").open("rb") as file:
                file.seek(self.polled_to[name])
                lines = file.read(upto - self.polled_to[name]).splitlines(keepends=True)
            self.lines[name] += lines
            self.polled_to[name] += sum(map(len, lines))
            if self.polled_to[name] != upto:
                raise StateLostError(f"partition {name} ends before byte {upto}")
        return self.cut()

    def is_exhausted(self) -> bool:
        return self.found

    def close(self) -> None:
        """Nothing stays open."""
