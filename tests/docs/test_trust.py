"""The page on trust says with which modes files are made: each is made under both umasks and compared."""

from __future__ import annotations

import os
import pickle
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.operations.savepoints.copying import copy_file, write_file
from tpc.coordinator.service.state.database import Database
from tpc.errors import ParkedError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Owner
from tpc.sinks import EffectSink, FileSink
from tpc.support.durable_files import make_directories
from tpc.transactional import make_transactional

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "trust.md"
JOB = PipelineId("job")
SCHEMA = pa.schema([("n", pa.int64())])


def table() -> dict[str, tuple[str, str]]:
    """The first words of each row, with its modes under the two umasks."""
    [part] = re.findall(r"<!-- modes -->(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.strip().splitlines()]
    return {what: (open_, closed) for what, open_, closed in rows[2:]}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def log(root: Path) -> list[Path]:
    LocalLog(root / "log").put(1, b"a record", None)
    return [root / "log" / f"{1:020d}.json"]


def lock(root: Path) -> list[Path]:
    make_directories(root / "tpc")
    with CheckpointLock(root / "tpc", of="job"):
        return [root / "tpc" / "lock"]


def note(root: Path) -> list[Path]:
    kept = ParkedNote(root)
    kept.keep(ParkedError("refused", epoch=1, sink="a"))
    return [kept.path]


def state(root: Path) -> list[Path]:
    path = root / "state" / "seen.db"
    with closing(Database(path, 5.0, "seen")) as database:
        database.make()
    return [path]


def outbox(root: Path) -> list[Path]:
    sink = EffectSink("pay", root, call=lambda effect: None, key=["n"], guarantee="at-most-once")
    with closing(sink.committer(JOB)) as committer:
        committer.check(CheckContext(JOB, SCHEMA, 1))
    return [root / "_tpc" / "effects.db"]


def rows(root: Path) -> tuple[list[Path], list[Path]]:
    """The data file, staged and published, and the files of the sink's own."""
    sink = FileSink(root / "files", name="files")
    with closing(sink.committer(JOB)) as committer:
        committer.check(CheckContext(JOB, SCHEMA, 1))
        committer.take_ownership(Owner(1, "nonce", 0.0), None)
        writer = sink.writer(Handle(JOB, 1, "files", 0, 0, 1), SCHEMA, committer.hint())
        writer.write(pa.RecordBatch.from_pydict({"n": [1]}, schema=SCHEMA))
        committable = writer.prepare()
        assert committable is not None
        data = list((root / "files").rglob("*.parquet"))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in data]
        committer.commit([committable])
        data = list((root / "files").glob("*.parquet"))
        assert [stat.S_IMODE(path.stat().st_mode) for path in data] == modes
    return data, [path for path in (root / "files" / "_tpc").rglob("*") if path.is_file()]


def savepoint(root: Path) -> list[Path]:
    source = root / "source"
    source.write_bytes(b"state")
    source.chmod(0o600)
    copy_file(source, root / "savepoint" / "copied")
    write_file(root / "savepoint" / "written", b"record")
    return [root / "savepoint" / "copied", root / "savepoint" / "written"]


MADE: dict[str, Callable[[Path], list[Path]]] = {
    "a record of the local log": log,
    "the lock of a checkpoint": lock,
    "a note beside the log": note,
    "the state store of a service": state,
    "the outbox of calls": outbox,
    "a staged file of a `FileSink`": lambda root: rows(root)[0],
    "a manifest, marker or owner entry": lambda root: rows(root)[1],
    "a file of a savepoint": savepoint,
}


@pytest.mark.parametrize(("mask", "column"), [(0o000, 0), (0o077, 1)], ids=["umask 000", "umask 077"])
@pytest.mark.parametrize("what", MADE)
def test_each_file_is_made_with_the_mode_that_the_page_says(what: str, mask: int, column: int, tmp_path: Path) -> None:
    [told] = [modes[column] for row, modes in table().items() if row.startswith(what)]
    [of_directories] = [modes[column] for row, modes in table().items() if row.startswith("directories")]
    with umask(mask):
        root = tmp_path / "made"
        root.mkdir()
        made = MADE[what](root)
    assert made
    assert {f"{stat.S_IMODE(path.stat().st_mode):04o}" for path in made} == {told}
    directories = [path for path in root.rglob("*") if path.is_dir()]
    assert {f"{stat.S_IMODE(path.stat().st_mode):04o}" for path in directories} <= {of_directories}


def test_every_row_of_the_page_is_tried() -> None:
    untried = [row for row in table() if not any(row.startswith(what) for what in (*MADE, "directories"))]
    assert untried == []


class Reads:
    """What its bytes do when they are read."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return os.putenv, ("TPC_TRUST_READ", "1")


def test_a_kept_object_is_read_as_a_pickle_unless_loads_are_given() -> None:
    """The page says so: whoever can write the bytes can run code."""
    data = pickle.dumps(Reads())
    assert make_transactional(1).loads(data) is None  # what `os.putenv` has returned
    with pytest.raises(ValueError, match="invalid"):
        make_transactional(1, dumps=lambda value: b"%d" % value, loads=int).loads(data)
