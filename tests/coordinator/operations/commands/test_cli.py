"""The operator's commands: what they print, their exit codes, and errors as one readable paragraph."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.terminal import run_in_terminal
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.operations import actions
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import ParkedError
from tpc.history import Action, Resolution
from tpc.records import RecordKind

RUNNER = CliRunner()


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a user runs it."""
    call = [sys.executable, "-m", "tpc", *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, timeout=60, cwd=cwd, check=False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint whose epoch 1 is decided and not complete."""
    journal = Journal(LocalLog(tmp_path / "checkpoint" / LOG_FOLDER))
    for kind, body in (
        (RecordKind.GENERATION, generation_body(1)),
        intent(manifest(0)),
        complete(0),
        intent(manifest(1, {"a": 2, "b": 0})),
    ):
        journal.append(kind, body)
    return tmp_path / "checkpoint"


def test_status_tells_what_is_pending(checkpoint: Path) -> None:
    result = RUNNER.invoke(app, ["status", str(checkpoint)])
    assert result.exit_code == 0
    assert "pipeline job#1, generation 1" in result.output
    assert "last decided epoch 1, last complete epoch 0" in result.output
    assert "epoch 1 is decided and not complete; branches: a: 2" in result.output


def test_status_of_a_parked_epoch_names_the_sink_that_refuses_and_its_words(checkpoint: Path) -> None:
    note = ParkedNote(checkpoint / "tpc")
    note.keep(ParkedError("the unique index refuses key 7", epoch=1, sink="a"))
    shown = RUNNER.invoke(app, ["status", str(checkpoint)]).output
    assert "epoch 1 is parked: sink a, " in shown
    assert ": the unique index refuses key 7\n" in shown
    assert "branches: a: 2" not in shown
    assert "all else of it is committed, but for what is refused or lost too" in shown
    note.keep(ParkedError("another index refused key 3", epoch=0, sink="a"))
    assert "parked" not in RUNNER.invoke(app, ["status", str(checkpoint)]).output, "that epoch is complete"
    note.keep(ParkedError("the unique index refuses key 7", epoch=1, sink="a"))
    actions.resolve(
        LocalLog(checkpoint / LOG_FOLDER), LocalCheckpoint(checkpoint), Resolution(1, "a", Action.ACCEPT_LOSS, "x", "y")
    )
    assert "parked" not in RUNNER.invoke(app, ["status", str(checkpoint)]).output, "an operator has decided"


def test_status_tells_what_to_do_about_a_damaged_end_of_the_log(checkpoint: Path) -> None:
    log = LocalLog(checkpoint / LOG_FOLDER)
    Path(log.where(5)).write_bytes(log.read(4)[:60])
    result = RUNNER.invoke(app, ["status", str(checkpoint)])
    assert result.exit_code == 0
    assert "slot 5 at the end of the log is damaged. Safe: nothing was changed. To do: start" in result.output


def test_status_lists_the_newest_epochs(checkpoint: Path) -> None:
    heading, *epochs = RUNNER.invoke(app, ["status", str(checkpoint)]).output.splitlines()[-3:]
    assert heading.split() == ["epoch", "status", "rows", "ms"]
    assert [epoch.split() for epoch in epochs] == [["0", "complete", "3", "0"], ["1", "decided", "3", "0"]]


@pytest.mark.slow
def test_status_fits_a_terminal_of_80_columns(checkpoint: Path) -> None:
    shown = run_in_terminal([sys.executable, "-m", "tpc", "status", str(checkpoint)], columns=80)
    assert "pipeline job#1, generation 1" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_status_can_be_had_as_json(checkpoint: Path) -> None:
    found = json.loads(RUNNER.invoke(app, ["status", str(checkpoint), "--json"]).output)
    assert (found["last_complete"], found["pending"]) == (0, 1)


@pytest.mark.slow
def test_an_error_is_one_paragraph_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    done = command("status", tmp_path, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("tpc: no intent log in ")
    assert "To do: name the pipeline's checkpoint directory" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "what"),
    [("no_such_module:pipeline", "cannot be loaded"), ("json:dumps_all", "cannot be loaded"), ("", "cannot be loaded")],
    ids=["module", "attribute", "empty"],
)
def test_a_pipeline_that_cannot_be_loaded_is_one_paragraph(tmp_path: Path, target: str, what: str) -> None:
    done = command("in-doubt", target, cwd=tmp_path)
    assert done.returncode == 1
    assert what in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "raises",
    [
        "import os; os.environ['NO_SUCH_VARIABLE']",
        "1 / 0",
        "raise RuntimeError('\\x1b]0;own\\x07 of it')",
        "raise OSError(2, 'No such file', 'x')",
        "[][1]",
    ],
)
@pytest.mark.parametrize("words", [["check"], ["status"], ["recover"]], ids=" ".join)
def test_whatever_a_job_raises_is_told_in_one_paragraph(words: list[str], raises: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(f"def pipeline():\n    {raises}\n")
    done = command(*words, "job:pipeline", cwd=tmp_path)
    assert done.returncode == 1
    assert "'job:pipeline' cannot be loaded: " in done.stderr
    assert "correct the module, or set what it reads from the environment" in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "told"),
    [("sys.exit()", "(exit code 0)"), ("sys.exit(3)", "(exit code 3)"), ("sys.exit('no DSN')", "the program: no DSN")],
)
@pytest.mark.parametrize("at", ["", "def pipeline():\n    "], ids=["import", "call"])
def test_a_job_that_ends_the_program_is_told_as_such(at: str, ends: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(f"import sys\n{at}{ends}\n")
    done = command("check", "job:pipeline", cwd=tmp_path)
    assert done.returncode == 1
    assert "'job:pipeline' cannot be loaded: it ends the program" in done.stderr
    assert told in done.stderr


def test_a_target_that_is_no_pipeline_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("def pipeline():\n    return 42\n")
    done = command("recover", "job:pipeline", cwd=tmp_path)
    assert done.returncode == 1
    assert "'job:pipeline' is a int, neither a pipeline nor a service" in done.stderr


def test_a_pipeline_is_found_in_the_current_directory_and_compared_with_its_log(
    tmp_path: Path, checkpoint: Path
) -> None:
    (tmp_path / "job.py").write_text(f"import tpc\npipeline = tpc.pipeline('other', checkpoint={str(checkpoint)!r})\n")
    done = command("in-doubt", "job:pipeline", cwd=tmp_path)
    assert done.returncode == 1
    assert "belongs to pipeline job#1, not to other#1" in done.stderr


def resolve(checkpoint: Path, *options: str) -> tuple[int, str]:
    result = RUNNER.invoke(app, ["resolve", str(checkpoint), "--reason", "gone", *options])
    return result.exit_code, result.output


def test_resolve_records_the_decision_with_its_reason(checkpoint: Path) -> None:
    code, output = resolve(checkpoint, "--epoch", "1", "--sink", "a", "--mark-committed")
    assert code == 0
    assert "recorded: epoch 1 a mark-committed." in output
    [resolution] = Journal(LocalLog(checkpoint / LOG_FOLDER)).open().resolutions
    assert (resolution.action, resolution.reason) == (Action.MARK_COMMITTED, "gone")
    assert "resolved: epoch 1 a mark-committed (gone)" in RUNNER.invoke(app, ["status", str(checkpoint)]).output


@pytest.mark.parametrize("choice", [(), ("--accept-loss", "--mark-committed")], ids=["no decision", "two decisions"])
def test_resolve_wants_exactly_one_decision(checkpoint: Path, choice: tuple[str, ...]) -> None:
    code, output = resolve(checkpoint, "--epoch", "1", "--sink", "a", *choice)
    assert code == 2
    assert "give one of" in output
    assert Journal(LocalLog(checkpoint / LOG_FOLDER)).open().resolutions == ()


def test_a_state_that_is_accepted_is_told_to_end_nothing_in_the_sinks(checkpoint: Path) -> None:
    code, output = resolve(checkpoint, "--epoch", "1", "--accept-state")
    assert code == 0
    assert "what the sinks hold of the epoch stays as it was decided" in " ".join(output.split())
    assert "it ends" not in output


def test_resolve_without_a_reason_is_refused(checkpoint: Path) -> None:
    result = RUNNER.invoke(app, ["resolve", str(checkpoint), "--epoch", "1", "--sink", "a", "--accept-loss"])
    assert result.exit_code == 2
    assert "--reason" in result.output


@pytest.mark.slow
def test_a_job_names_its_log_and_its_checkpoint(checkpoint: Path) -> None:
    place = checkpoint.parent
    (place / "job.py").write_text(f"import tpc\npipeline = tpc.pipeline('job', checkpoint={str(checkpoint)!r})\n")
    assert json.loads(command("status", "job:pipeline", "--json", cwd=place).stdout)["pending"] == 1
    told = json.loads(command("history", "job:pipeline", "--json", cwd=place).stdout)
    assert [row["epoch"] for row in told] == [0, 1]
    assert json.loads(command("show", "job:pipeline", 1, "--json", cwd=place).stdout)["status"] == "decided"
    decision = ("--epoch", 1, "--sink", "a", "--accept-loss", "--although-not-refused", "--reason", "gone")
    assert json.loads(command("resolve", "job:pipeline", *decision, "--json", cwd=place).stdout)["sink"] == "a"
    assert [each.sink for each in Journal(LocalLog(checkpoint / LOG_FOLDER)).open().resolutions] == ["a"]


def test_the_state_of_a_log_is_told_without_its_checkpoint(checkpoint: Path) -> None:
    assert "epoch 1 is decided" in RUNNER.invoke(app, ["status", str(checkpoint / LOG_FOLDER)]).output


def test_a_log_that_lies_elsewhere_is_named_beside_the_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (checkpoint / LOG_FOLDER).rename(elsewhere)
    ParkedNote(checkpoint / "tpc").keep(ParkedError("the unique index refuses key 7", epoch=1, sink="a"))
    shown = RUNNER.invoke(app, ["status", str(checkpoint), "--log", str(elsewhere)]).output
    assert "epoch 1 is parked: sink a, " in shown


@pytest.mark.slow
def test_a_decision_wants_the_checkpoint_whose_lock_it_takes(checkpoint: Path, tmp_path: Path) -> None:
    done = command(
        *("resolve", checkpoint / LOG_FOLDER, "--epoch", 1, "--sink", "a", "--accept-loss", "--reason", "gone"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "is a log, not a checkpoint" in done.stderr
    assert Journal(LocalLog(checkpoint / LOG_FOLDER)).open().resolutions == ()


def test_a_sink_is_removed_and_columns_are_accepted_with_words_for_a_program(checkpoint: Path) -> None:
    place = checkpoint.parent
    (place / "job.py").write_text(f"import tpc\npipeline = tpc.pipeline('job', checkpoint={str(checkpoint)!r})\n")
    done = command("remove", "job:pipeline", "b", "--without-sweep", "--reason", "gone", "--json", cwd=place)
    assert json.loads(done.stdout) == {"sinks": ["b"], "aborted": None}
    assert set(Journal(LocalLog(checkpoint / LOG_FOLDER)).open().removed) == {"b"}
