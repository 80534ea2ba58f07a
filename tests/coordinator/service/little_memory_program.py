"""A service, one of whose events makes rows of 160 MB, in a process that may take so many more bytes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401  before the limit: a library that cannot be loaded is another matter

import tpc
from tpc.sinks import FileSink
from tpc.sources import IterableSource

ROWS = 8_000
TEXT = "x" * 20_000
"""One object for all rows: Python needs no more memory for 8,000 of them."""


def main(directory: Path, more: int) -> None:
    service = tpc.service("memory", directory=directory / "service")

    @service.each(service.read(IterableSource(range(20), name="numbers")))
    def rows(number: int, out: Any) -> None:
        if more and number == 10:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
        for _ in range(ROWS if number == 10 else 1):
            out.row("rows", {"text": TEXT})

    service.write("rows", {"text": str}).to(FileSink(directory / "rows", name="rows"))
    service.dead_letters_to(FileSink(directory / "dead", name="dead"), max_share=1.0)
    try:
        service.run(until_end=True)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
