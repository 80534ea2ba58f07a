"""The how-to for authors of sinks holds: its code is the example, which passes the kit; the kit says what is quoted."""

from __future__ import annotations

import importlib
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow
import pytest

import tpc.testing
from tests.docs.examples import DOCS, EXAMPLES
from tests.docs.kit_runs import TIME_LIMIT_S, run_kit
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Committable, Verdict

PAGE = DOCS / "how-to" / "write-a-sink.md"
SINK, KIT = EXAMPLES / "sqlite_sink.py", EXAMPLES / "test_sqlite_sink.py"
ONLY_ON_THE_PAGE = ("# For now.", "# In a pipeline.")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def lines(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip()]


def test_the_blocks_of_the_page_are_the_two_files_line_by_line() -> None:
    shown = [block for block in blocks("python") if not block.startswith(ONLY_ON_THE_PAGE)]
    assert lines(shown[0]) == lines(KIT.read_text())
    assert lines("".join(shown[1:])) == lines(SINK.read_text())


def test_the_kit_says_what_the_page_quotes() -> None:
    sources = Path(tpc.testing.__file__).parent.rglob("*.py")
    said = "".join(re.sub(r'"\s+"', "", path.read_text()) for path in sources)
    quoted = re.findall(r"^  (?:Contract|To do): (.*)$", "".join(blocks("text")), flags=re.MULTILINE)
    assert len(quoted) >= 6
    assert [sentence for sentence in quoted if sentence not in said] == []


@pytest.mark.slow
@pytest.mark.timeout(TIME_LIMIT_S)
def test_the_example_passes_the_whole_kit_and_skips_what_the_page_says(tmp_path: Path) -> None:
    shutil.copy(SINK, tmp_path)
    shutil.copy(KIT, tmp_path)
    ran = run_kit(tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^\d+ passed, 35 skipped in", ran.stdout, flags=re.MULTILINE), ran.stdout


@pytest.mark.parametrize("something_is_staged", [False, True], ids=["nothing staged", "a branch staged"])
def test_the_example_takes_a_column_that_its_table_got_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, something_is_staged: bool
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("sqlite_sink")

    def ask(statement: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as database:
            return database.execute(statement).fetchall()

    def staged(epoch: int, row: dict[str, object]) -> Committable:
        schema = pyarrow.RecordBatch.from_pylist([row]).schema
        committer.check(CheckContext(pipeline, schema, 1))
        writer = sink.writer(Handle(pipeline, 1, "a", epoch, 0, 0), schema, {})
        writer.write(pyarrow.RecordBatch.from_pylist([row], schema=schema))
        committable = writer.prepare()
        assert isinstance(committable, Committable)
        return committable

    ask("CREATE TABLE t (id INTEGER NOT NULL)")
    sink, pipeline = example.SqliteSink("a", tmp_path / "x.db", "t"), PipelineId("job")
    committer = sink.committer(pipeline)
    old = staged(0, {"id": 1})
    if not something_is_staged:
        assert committer.commit([old])[0].verdict is Verdict.COMMITTED
    ask("ALTER TABLE t ADD COLUMN extra TEXT")
    new = staged(1, {"id": 2, "extra": "e"})
    assert [outcome.settled for outcome in committer.commit([old, new])] == [True, True]
    assert sorted(ask("SELECT id, extra FROM t")) == [(1, None), (2, "e")]
