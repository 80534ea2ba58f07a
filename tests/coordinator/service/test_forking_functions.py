"""A function that forks comes back twice: the parent writes the epoch, and the child ends without touching it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.processes import python
from tpc.coordinator.service.service_pass import CAME_BACK

PROGRAM = """
import os, sys
from pathlib import Path
import tpc
from tpc.sinks import FileSink
from tpc.sources import IterableSource

directory, how = Path(sys.argv[1]), sys.argv[2]
service = tpc.service("forks", directory=directory / "service")
children = []

@service.each(service.read(IterableSource(range(100), name="numbers")))
def rows(number, out):
    if number == 70:
        child = os.fork()
        if child:
            children.append(child)
        elif how == "raises":
            raise ValueError("in the child")
        elif how == "exits":
            sys.exit(3)
    out.row("rows", {"n": number})

service.write("rows", {"n": int}).to(FileSink(directory / "rows", name="rows"))
service.run(every=tpc.EpochTrigger(events=30), until_end=True)
[child] = children
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
def test_the_child_of_a_function_that_forks_ends_and_the_parent_goes_on(how: str, tmp_path: Path) -> None:
    with python(PROGRAM, tmp_path, how) as process:
        told, _ = process.communicate(timeout=60.0)
    assert told.splitlines() == [str(CAME_BACK)]
    files = sorted((tmp_path / "rows").glob("*.parquet"))
    assert sorted(n for file in files for n in pq.read_table(file)["n"].to_pylist()) == list(range(100))
