"""A service without Spark: what it writes, what it records, and what happens to it when it dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.program import Die, Numbers, die
from tests.core.builders import generation_body
from tests.support.each_step import each_step
from tpc import failpoints
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.service import epoch_input, running
from tpc.coordinator.service.service_pass import ServicePass
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.reconcile import check_identity
from tpc.errors import (
    ConfigurationError,
    DataError,
    DeterminismError,
    DigestKindError,
    FencedError,
    HistoryMismatchError,
    StateLostError,
    TransientError,
)
from tpc.records import RecordKind
from tpc.source import Origin
from tpc.sources import IterableSource, LinesSource

ROOT = Path(__file__).parents[3]
STEPS = (
    "epoch.planned",
    "pass.write",
    "pass.prepared",
    "epoch.collected",
    "epoch.prepared",
    "log.stored",
    "epoch.decided",
    "sink.commit",
    "sink.committed",
    "epoch.committed",
    "epoch.completed",
)


def printed_by(code: str, *arguments: str) -> str:
    """What a process of its own prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_service_is_there_without_spark() -> None:
    code = "import sys, tpc, tpc.sources; tpc.service, tpc.sources.LinesSource; print('pyspark' in sys.modules)"
    assert printed_by(code) == "False\n"


@pytest.mark.slow
def test_a_service_runs_without_loading_spark(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.coordinator.service.program import Numbers; "
        "Numbers(Path(sys.argv[1]), 10).run(); print('pyspark' in sys.modules)"
    )
    assert printed_by(code, str(tmp_path)) == "False\n"


def test_rows_go_where_the_condition_says_and_otherwise_elsewhere(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 250)
    numbers.run()
    assert numbers.is_right()
    assert [row["rows"] for row in numbers.history()] == [100, 100, 50]


def test_a_condition_is_computed_once_for_each_row(tmp_path: Path) -> None:
    numbers, asked = Numbers(tmp_path), list[int]()

    def at_random(row: Mapping[str, Any]) -> bool:
        asked.append(row["n"])
        return len(asked) % 3 == 0

    service = tpc.service("numbers", directory=tmp_path / "service")
    service.each(service.read(IterableSource(range(60))))(lambda number, out: out.row("rows", {"n": number}))
    rows = service.write("rows", {"n": int})
    rows.to(numbers.sink("one"), where=at_random).to(numbers.sink("two"), where=at_random).otherwise(
        numbers.sink("rest")
    )
    service.run(until_end=True)
    assert asked == list(range(60))
    assert numbers.written("one") == numbers.written("two") == list(range(2, 60, 3))
    assert sorted(numbers.written("one") + numbers.written("rest")) == asked


def test_an_expression_of_arrow_is_a_condition_too(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    service = tpc.service("numbers", directory=tmp_path / "service")

    @service.each_batch(service.read(IterableSource([4, None, 11])))
    def taken(events: list[int | None], out: Any) -> None:
        out.batch("rows", pa.RecordBatch.from_pydict({"n": pa.array(events, pa.int64())}))

    rows = service.write("rows", {"n": int}).to(numbers.sink("large"), where=pc.field("n") > 10)
    rows.otherwise(numbers.sink("rest"), select={"n": "n"})
    service.run(until_end=True)
    assert numbers.written("large") == [11]
    assert len(list((tmp_path / "rest").glob("*.parquet"))) == 1
    assert service.columns()["rest"] == (("n", "int64"),)
    assert [row["sinks"]["rest"]["rows"] for row in numbers.history()] == [2]


def test_the_next_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 130)
    numbers.run()
    numbers.values += range(130, 200)
    numbers.run()
    assert numbers.is_right()
    assert tpc.positions(tmp_path / "service").offsets == ("200",)


@pytest.mark.parametrize("step", each_step(STEPS))
def test_a_death_at_any_step_loses_and_doubles_nothing(step: str, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 300)
    numbers.run()
    numbers.values += range(300, 600)
    with pytest.raises(Die):
        numbers.run_with({step: die})
    numbers.run(every=70)  # what was not decided is cut otherwise
    assert numbers.is_right()
    assert {row["status"] for row in numbers.history()} == {"complete"}
    assert numbers.staged("even") == numbers.staged("odd") == []


def lose(numbers: Numbers, sink: str, epoch: int = 0) -> Any:
    """An action: of a sink everything that is prepared disappears, and the process with it."""

    def action(step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] != epoch:
            return
        staged = numbers.staged(sink)
        assert staged
        for path in staged:
            path.unlink()
        raise Die(step)

    return action


def test_a_lost_branch_is_written_again_from_the_recorded_positions(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 250)
    with pytest.raises(Die):
        numbers.run_with({"epoch.decided": lose(numbers, "odd", epoch=1)})
    numbers.values += range(250, 400)
    numbers.run(every=33)
    assert numbers.is_right()
    assert numbers.history()[1]["rows"] == 100
    assert b'"repair"' in b"".join(numbers.service().log.read(slot) for slot in numbers.service().log.slots())


def test_a_repair_with_other_rows_is_refused(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 100)
    with pytest.raises(Die):
        numbers.run_with({"epoch.decided": lose(numbers, "odd")})
    numbers.text_of = lambda number: f"another {number}"
    with pytest.raises(DeterminismError, match="other rows for a lost branch than the ones decided"):
        numbers.run()
    assert numbers.written("odd") == []


def test_a_repair_by_digests_of_another_kind_is_refused_as_that_and_made_by_those_of_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = Numbers(tmp_path, 100)
    with pytest.raises(Die):
        numbers.run_with({"epoch.decided": lose(numbers, "odd")})
    monkeypatch.setattr(ServicePass, "digest_kind", "another")
    with pytest.raises(DigestKindError, match=r"decided with splitmix64, its replay makes another") as raised:
        numbers.run()
    assert "epoch 0 is decided and stays so" in raised.value.safe
    assert numbers.written("odd") == []
    assert numbers.staged("odd") == []
    monkeypatch.undo()
    numbers.run()
    assert numbers.is_right()


def test_a_repair_of_an_epoch_whose_kind_of_digests_is_not_on_record_compares_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = Numbers(tmp_path, 100)
    monkeypatch.setattr(ServicePass, "digest_kind", None)
    with pytest.raises(Die):
        numbers.run_with({"epoch.decided": lose(numbers, "odd")})
    monkeypatch.undo()
    numbers.run()
    assert numbers.is_right()


def test_what_a_function_raises_undoes_the_epoch_everywhere(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 150)

    def text_of(number: int) -> str:
        if number == 140:
            raise ZeroDivisionError("the function's own")
        return str(number)

    numbers.text_of = text_of
    with pytest.raises(DataError, match=r"value 140 of source 'numbers': ZeroDivisionError: the function's own") as met:
        numbers.run()
    assert isinstance(met.value.__cause__, ZeroDivisionError)
    assert len(numbers.history()) == 1
    numbers.text_of = str
    numbers.run()
    assert numbers.is_right()


def test_a_value_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 10)
    mistaken: Any = lambda number: number if number == 7 else str(number)  # noqa: E731
    numbers.text_of = mistaken
    with pytest.raises(DataError, match=r"column 'text' of rows 'rows' is string.*'n': 7"):
        numbers.run()


def test_a_source_that_has_lost_what_was_read_is_refused(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 100)
    numbers.run()
    del numbers.values[50:]
    with pytest.raises(StateLostError, match="has 50 values, and 100 of it were read"):
        numbers.run()


def test_a_cut_that_another_version_has_written_is_refused_by_its_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = Numbers(tmp_path, 100)
    numbers.run()
    monkeypatch.setattr(epoch_input, "FORMAT", epoch_input.FORMAT + 1)
    with pytest.raises(
        HistoryMismatchError, match=r"is written in format 2, and this is format 3 .*epoch 0.*version of"
    ):
        numbers.run()


def test_a_source_that_is_left_out_is_refused(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 100)
    numbers.run()
    service = tpc.service("numbers", directory=tmp_path / "service")
    service.each(service.read(IterableSource([], name="others")))(lambda event, out: None)
    service.write("rows", {"n": int, "text": str}).to(numbers.sink("even")).to(numbers.sink("odd"))
    with pytest.raises(ConfigurationError, match="has read from source 'numbers' before"):
        service.run(until_end=True)


def test_lines_of_a_file_are_read_when_they_are_whole(tmp_path: Path) -> None:
    file, numbers = tmp_path / "lines.txt", Numbers(tmp_path)

    def run() -> None:
        service = tpc.service("lines", directory=tmp_path / "service")

        @service.each_batch(service.read(LinesSource(file)))
        def all_of_them(lines: list[str], out: Any) -> None:
            out.rows("rows", [{"n": int(line)} for line in lines])

        service.write("rows", {"n": int}).to(numbers.sink("even"))
        service.run(until_end=True)

    file.write_text("1\n2\n3")
    run()
    assert numbers.written("even") == [1, 2]
    file.write_text("1\n2\n34\n")
    run()
    assert numbers.written("even") == [1, 2, 34]
    assert tpc.positions(tmp_path / "service").offsets == ("7",)


@pytest.mark.parametrize("anew", ["shorter", "another", "grown again"])
def test_a_file_that_is_not_what_was_read_is_refused_while_it_is_read(anew: str, tmp_path: Path) -> None:
    file, other = tmp_path / "lines.txt", tmp_path / "other.txt"
    file.write_text("11\n22\n")
    reader = LinesSource(file).reader()
    reader.seek(None)
    assert reader.poll(10, 0) == 2
    if anew == "another":
        other.write_text("11\n22\n33\n")
        other.replace(file)
    else:
        file.write_text("3\n" if anew == "shorter" else "3333333\n4\n")
    with pytest.raises(StateLostError, match=r"lines\.txt"):
        reader.poll(10, 0)
    reader.close()


def test_a_position_within_a_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("3333333\n4\n")
    reader = LinesSource(tmp_path / "lines.txt").reader()
    with pytest.raises(StateLostError, match="no line that ends at byte 6"):
        reader.seek("6")
    reader.close()


def test_a_line_that_is_no_text_is_named_with_its_file_and_its_place(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"ok\nb\xffd\n")
    service = tpc.service("lines", directory=tmp_path / "service")
    service.each(service.read(LinesSource(file)))(lambda line, out: None)
    service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"))
    with pytest.raises(DataError, match=r"decode refuses .*lines\.txt, byte 3 of .* byte 0xff in position 1"):
        service.run(until_end=True)


def test_lines_are_what_decode_makes_of_them_also_when_they_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"ok\nb\xffd\n[1]\n")
    reader = LinesSource(file, decode=lambda line: line.decode(errors="replace")).reader()
    reader.seek(None)
    assert reader.poll(10, 0) == 3
    [part] = reader.cut()
    assert part.events == ["ok", "b\ufffdd", "[1]"]
    reader.seek("3")
    [part] = reader.read_to("11", 0)
    assert part.events == ["b\ufffdd", "[1]"]
    reader.close()


def test_a_line_that_decode_refuses_is_reported_with_its_place_other_failures_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"[1]\n{\n")
    reader = LinesSource(file, decode=json.loads).reader()
    reader.seek(None)
    [part] = reader.read_to("6", 0)
    assert part.events == [[1], None]
    assert [(index, type(error)) for index, error in part.refused.items()] == [(1, json.JSONDecodeError)]
    assert part.origin is not None
    assert part.origin(1) == Origin(f"file {file}, byte 4", None, b"{")
    reader.close()

    def unreachable(line: bytes) -> str:
        raise TransientError("the registry does not answer")

    reader = LinesSource(file, decode=unreachable).reader()
    reader.seek(None)
    with pytest.raises(TransientError, match="registry"):
        reader.read_to("6", 0)
    reader.close()


def test_a_second_process_takes_over_and_the_first_ends_fenced(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 50)
    ended: list[BaseException] = []

    def first() -> None:
        try:
            numbers.service().run(every=10)
        except FencedError as error:
            ended.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    while len(numbers.history()) < 5:
        time.sleep(0.02)
    numbers.run(takeover=True)
    numbers.values += range(50, 100)  # the first one reads them, and may not decide them
    thread.join(60)
    assert len(ended) == 1
    numbers.run(takeover=True)
    assert numbers.is_right()


@pytest.mark.slow
def test_sigterm_ends_a_service_after_its_epoch(tmp_path: Path) -> None:
    code = (
        "import sys, tpc; from pathlib import Path; from tests.coordinator.service.program import Numbers; "
        "numbers = Numbers(Path(sys.argv[1]), 100); "
        "numbers.service().on_complete(lambda row: print('complete', flush=True)).run(every=tpc.seconds(0.01))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "complete\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    numbers = Numbers(tmp_path, 100)
    assert numbers.is_right()
    numbers.run()
    assert numbers.is_right()


def test_a_service_that_is_never_idle_stops_when_another_process_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_UPKEEP_INTERVAL_S", 0.0)
    numbers = Numbers(tmp_path, 100)
    failpoints.install({"epoch.completed": lambda *_: StopRequest(tmp_path / "service" / "tpc").make()})
    try:
        numbers.run(every=1)
    finally:
        failpoints.install({})
    assert len(numbers.history()) == 1
    numbers.run()
    assert numbers.is_right()


def test_a_spark_query_s_checkpoint_is_refused(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 10)
    journal = Journal(numbers.service().log)
    journal.open()
    journal.append(RecordKind.GENERATION, generation_body(1, pipeline="numbers", sinks={}, query_id="of a Spark query"))
    with pytest.raises(HistoryMismatchError, match="query of a Spark query"):
        numbers.run()
    assert numbers.written("even") == []


def test_a_pipeline_of_spark_is_refused_where_a_service_is(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 10)
    numbers.run()
    history = Journal(numbers.service().log).open()
    with pytest.raises(HistoryMismatchError, match="the intent log is that of a service"):
        check_identity(history, SparkLog(LocalFiles(tmp_path / "service")))
    assert not (tmp_path / "service" / "metadata").exists()


# The operator's commands --------------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Numbers:
    """A service that died with a decided epoch; `numbers_job:service` makes it."""
    text = "from pathlib import Path\nfrom tests.coordinator.service.program import Numbers\n"
    (tmp_path / "numbers_job.py").write_text(f"{text}service = Numbers(Path({str(tmp_path)!r}), 50).service\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "numbers_job", raising=False)
    numbers = Numbers(tmp_path, 50)
    with pytest.raises(Die):
        numbers.run_with({"epoch.decided": die})
    return numbers


def told(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_commands_of_a_pipeline_are_those_of_a_service(job: Numbers) -> None:
    assert told("status", "numbers_job:service")["pending"] == 0
    assert {doubt["sink"] for doubt in told("in-doubt", "numbers_job:service")} == {"even", "odd"}
    assert told("sweep", "numbers_job:service") == {"aborted": 0, "joined": []}
    assert told("recover", "numbers_job:service")["last_complete"] == 0
    assert job.is_right()
    assert told("in-doubt", "numbers_job:service") == []
