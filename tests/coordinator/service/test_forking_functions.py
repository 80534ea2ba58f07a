"""A function that forks comes back twice: the parent writes the epoch, and the child ends without touching it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.processes import python
from tpc.coordinator.service.epoch_cancellation import CAME_BACK

pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys
from pathlib import Path
import tpc
from tpc.sinks import FileSink
from tpc.sources import LinesSource

directory, where, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
lines = directory / "lines"
lines.write_text("".join(f"{number}\\n" for number in range(100)))
service = tpc.service("forks", directory=directory / "service")
children = []

def fork(place, number):
    if (place, number, children) == (where, 70, []):
        child = os.fork()
        if child:
            children.append(child)
        elif how == "raises":
            raise ValueError("in the child")
        elif how == "exits":
            sys.exit(3)

def decoded(line):
    fork("decode", int(line))
    return int(line)

def time_of(number):
    fork("time", number)
    return number

@service.each(service.read(LinesSource(lines, decode=decoded), time=time_of))
def rows(number, out):
    fork("function", number)
    out.row("rows", {"n": number})

def is_wanted(row):
    fork("where", row["n"])
    return True

service.write("rows", {"n": int}).to(FileSink(directory / "rows", name="rows"), where=is_wanted)
service.run(every=tpc.EpochTrigger(events=30), until_end=True)
[child] = children
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
@pytest.mark.parametrize("where", ["function", "decode", "time", "where"])
def test_the_child_of_what_forks_ends_and_the_parent_goes_on(where: str, how: str, tmp_path: Path) -> None:
    with python(PROGRAM, tmp_path, where, how) as process:
        told, _ = process.communicate(timeout=60.0)
    assert told.splitlines() == [str(CAME_BACK)]
    files = sorted((tmp_path / "rows").glob("*.parquet"))
    assert sorted(n for file in files for n in pq.read_table(file)["n"].to_pylist()) == list(range(100))
