"""A service of which several processes are started: lines of a file become running sums, in a state and in rows.

`python -m tests.coordinator.service.standby_program DIRECTORY` ends with a supervisor's code.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import tpc
from tpc.coordinator.operations.supervision.exit_codes import exit_code_for
from tpc.errors import TpcError
from tpc.sinks import FileSink
from tpc.sources import LinesSource

SILENT_S = 3.0
KEYS = 3


def sums(directory: Path) -> tpc.Service:
    service = tpc.service("sums", directory=directory / "service")
    lines = service.read(LinesSource(directory / "lines"))
    totals: Any = service.state("totals")

    @service.each(lines)
    def add(line: str, out: Any) -> None:
        key = int(line) % KEYS
        totals[key] = totals.get(key, 0) + int(line)
        out.row("sums", {"n": int(line), "sum": totals[key]})

    service.write("sums", {"n": int, "sum": int}).to(FileSink(directory / "out", name="out"))
    return service


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        sums(Path(sys.argv[1])).run(every=tpc.seconds(0.05), standby=tpc.seconds(SILENT_S))
    except TpcError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(exit_code_for(error))
