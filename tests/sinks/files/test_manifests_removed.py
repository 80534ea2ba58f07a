"""Manifests are removed with the files of a sink's first epoch while it may still be committed again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow
import pytest

from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, Verdict
from tpc.sinks.files.sink import FileSink

JOB = PipelineId("job")
SCHEMA = pyarrow.schema([("id", pyarrow.int64())])


@pytest.fixture
def sink(tmp_path: Path) -> FileSink:
    sink = FileSink(str(tmp_path / "target"), name="files")
    sink.committer(JOB).check(CheckContext(JOB, SCHEMA, 2, ()))
    return sink


def prepared(sink: FileSink, hint: JSONObject) -> Committable:
    writer = sink.writer(Handle(JOB, 1, "files", 0, 0, 0), SCHEMA, hint)
    writer.write(pyarrow.RecordBatch.from_pylist([{"id": 1}], schema=SCHEMA))
    committable = writer.prepare()
    assert committable is not None
    return committable


def verdicts(committer: Committer, committable: Committable) -> list[Verdict]:
    return [outcome.verdict for outcome in committer.commit([committable])]


def test_a_first_epoch_without_its_manifest_and_its_files_is_unknown(sink: FileSink) -> None:
    committer = sink.committer(JOB)
    committable = prepared(sink, committer.hint())
    committer.commit([committable])
    shutil.rmtree(Path(sink.path) / "_tpc" / "manifests")
    (Path(sink.path) / str(committable.data["file"])).unlink()  # as whoever reads files and removes them
    for _ in range(2):
        assert verdicts(committer, committable) == [Verdict.UNKNOWN]
        committer.hint()  # a start looks before it commits again: the base that it makes is another


@pytest.mark.parametrize("records_a_base", [True, False], ids=["with a base", "of an older version"])
def test_a_first_epoch_whose_staged_file_is_gone_is_lost(sink: FileSink, records_a_base: bool) -> None:
    committer = sink.committer(JOB)
    committable = prepared(sink, committer.hint() if records_a_base else {"after": -1})
    committer.abort([committable])
    assert verdicts(committer, committable) == [Verdict.LOST]


def test_a_hint_makes_nothing_where_the_directory_is_away(sink: FileSink) -> None:
    shutil.rmtree(sink.path)
    assert sink.committer(JOB).hint() == {"after": -1}
    assert not Path(sink.path).exists()
