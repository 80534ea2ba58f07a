"""`tpc run`: real processes of toy jobs, restarted by a strategy, stopped by signals; nothing of them is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tpc
from tests.support.processes import REPOSITORY, eventually, runs
from tpc.__main__ import app
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED, EXIT_NOT_LOADED, EXIT_PARKED

pytestmark = pytest.mark.slow  # processes of their own

DEADLINE_S = 60.0
FAST = ["--strategy", "fixed", "--delay-s", "0.05"]


class Run:
    """A call of `tpc run` in a process of its own, with the toy's notes."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.notes_file = directory / "notes"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tpc", "run", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "TOY_DIR": str(directory)},
            start_new_session=True,
        )
        self.out = self.err = ""

    def ended(self) -> int:
        self.out, self.err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode

    def notes(self) -> list[str]:
        return self.notes_file.read_text().splitlines() if self.notes_file.exists() else []

    def wait_for(self, note: str) -> None:
        eventually(lambda: note in self.notes(), f"the job notes {note!r}", timeout_s=DEADLINE_S)

    def job(self) -> int:
        """The process of the job that was started last."""
        return int(re.findall(r"process (\d+) has begun", self.err)[-1])


@contextmanager
def run(directory: Path, job: str, *options: str) -> Iterator[Run]:
    one = Run(directory, job if job.endswith(".py") or ":" in job else f"tests.coordinator.toy_job:{job}", *options)
    try:
        yield one
    finally:
        if one.process.poll() is None:  # asked twice, it kills the job's whole group
            one.process.terminate()
            one.process.terminate()
        one.process.wait(DEADLINE_S)


def test_a_job_that_fails_twice_is_started_three_times_and_its_output_passes_through(tmp_path: Path) -> None:
    with run(tmp_path, "fails_twice", *FAST) as one:
        assert one.ended() == 0
    assert one.notes() == ["life 0", "life 1", "life 2"]
    assert one.out == "life 0\nlife 1\nlife 2\n"
    assert one.err.count("has ended with 1\n") == 2
    assert "restart 2 in 0.05 s\n" in one.err
    assert "the server is still away" in one.err
    assert one.err.endswith("has ended with 0; it ended well\n")


@pytest.mark.parametrize(
    ("job", "code", "word"),
    [
        ("fenced", EXIT_FENCED, "fenced: another coordinator has taken over"),
        ("parked", EXIT_PARKED, "parked: a decided epoch waits"),
    ],
)
def test_a_final_exit_code_is_passed_on_with_a_word_and_nothing_is_restarted(
    job: str, code: int, word: str, tmp_path: Path
) -> None:
    with run(tmp_path, job, *FAST) as one:
        assert one.ended() == code
    assert len(one.notes()) <= 1
    assert word in one.err.splitlines()[-1]


def test_a_refused_start_is_tried_again_since_a_server_may_only_have_come_up(tmp_path: Path) -> None:
    with run(tmp_path, "misconfigured", *FAST) as one:
        assert one.ended() == 0
    assert one.notes() == ["life 0", "life 1"]
    assert "the table is missing" in one.err


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ("tests.coordinator.toy_job:no_such_job", "no_such_job"),
        ("tests.coordinator.no_such_module:pipeline", "no_such_module"),
        ("tests.coordinator.toy_job:needs_a_package", "no_such_package"),
        ("tests.coordinator.toy_job:runs_into_a_package", "no_such_package"),
        ("tests.coordinator.toy_job:is_told_of_a_package", "no_such_package"),
    ],
    ids=["function", "module", "package", "package later", "package of a sink"],
)
def test_what_no_restart_heals_ends_at_once_with_its_error(job: str, told: str, tmp_path: Path) -> None:
    with run(tmp_path, job, *FAST) as one:
        assert one.ended() == EXIT_NOT_LOADED
    assert one.err.count("has begun") == 1
    assert told in one.err
    assert one.err.endswith("not loaded: the job's module, its function or a package is missing\n")


def test_the_job_ends_with_a_killed_tpc_run_and_the_next_one_runs(tmp_path: Path) -> None:
    with run(tmp_path, "holds", *FAST) as one:
        one.wait_for("holds")
        job = int((tmp_path / "job").read_text())
        one.process.kill()
        with run(tmp_path, "holds", *FAST) as other:
            eventually(lambda: not runs(job), "the job ends", timeout_s=DEADLINE_S)
            eventually(lambda: one.notes().count("holds") == 2, "the other holds", timeout_s=DEADLINE_S)
            other.process.terminate()
            assert other.ended() == 0
    assert "--takeover" not in other.err


def test_when_the_strategy_gives_up_the_job_s_code_is_passed_on(tmp_path: Path) -> None:
    with run(tmp_path, "fails_twice", *FAST, "--attempts", "1") as one:
        assert one.ended() == 1
    assert one.err.endswith("gave up: the strategy allows no restart after 1 of them\n")


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
    ids=lambda number: number.name,
)
def test_a_signal_stops_the_job_after_its_current_epoch(number: signal.Signals, tmp_path: Path) -> None:
    with run(tmp_path, "runs", *FAST) as one:
        one.wait_for("begins 1")
        one.process.send_signal(number)
        assert one.ended() == 0
    begun = [note.split()[1] for note in one.notes() if note.startswith("begins")]
    assert [note.split()[1] for note in one.notes() if note.startswith("complete")] == begun
    assert one.err.count("has begun") == 1
    assert one.err.endswith("has ended with 0; it was asked to stop\n")


@pytest.mark.parametrize(
    "second",
    [signal.SIGTERM, signal.SIGINT],
    ids=lambda number: number.name,
)
def test_a_second_signal_ends_the_job_at_once(second: signal.Signals, tmp_path: Path) -> None:
    with run(tmp_path, "deaf", *FAST) as one:
        one.wait_for("begins 0")
        one.process.send_signal(signal.SIGTERM)
        one.wait_for("deaf")
        one.process.send_signal(second)
        assert one.ended() == 128 + second
    assert not runs(one.job())


def test_a_signal_during_the_start_ends_it_as_the_next_start_recovers_anyway(tmp_path: Path) -> None:
    with run(tmp_path, "starts_for_ever", *FAST) as one:
        one.wait_for("starting")
        one.process.terminate()
        assert one.ended() == 0
    assert one.notes() == ["starting"]


def test_a_signal_while_it_waits_for_a_restart_starts_nothing_more(tmp_path: Path) -> None:
    with run(tmp_path, "fails_twice", "--strategy", "fixed", "--delay-s", "600") as one:
        assert one.process.stderr is not None
        while "restart 1 in 600 s" not in one.process.stderr.readline():
            assert one.process.poll() is None
        one.process.terminate()
        assert one.ended() == 1
    assert one.notes() == ["life 0"]


def test_a_job_s_start_gets_its_options(tmp_path: Path) -> None:
    with run(
        tmp_path, "tells_its_options", "--trigger", "1 second", "--health-port", "8080", "--ui-port", "8081"
    ) as one:
        assert one.ended() == EXIT_FENCED
    serve = tpc.Serve(health=8080, page=8081)
    assert one.notes() == [f"options {{'trigger': {{'processingTime': '1 second'}}, 'serve': {serve!r}}}"]


def test_addresses_and_silence_reach_the_start_as_one_value(tmp_path: Path) -> None:
    options = [
        "--health-port=8080",
        "--health-host=::",
        "--silent-after-s=60",
        "--metrics-port=0",
        "--metrics-host=10.0.0.1",
    ]
    with run(tmp_path, "tells_its_options", *options) as one:
        assert one.ended() == EXIT_FENCED
    serve = tpc.Serve(health="[::]:8080", metrics="10.0.0.1:0", silent_after_s=60.0)
    assert one.notes() == [f"options {{'serve': {serve!r}}}"]


def test_a_script_runs_with_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(86)\n")
    with run(tmp_path, str(script), "--", "a", "--b") as one:
        assert one.ended() == EXIT_FENCED
    assert one.out == "['a', '--b']\n"


def test_a_script_that_dies_of_a_signal_is_restarted_and_its_end_is_told_as_shells_do(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("import os; os.kill(os.getpid(), 9)\n")
    with run(tmp_path, str(script), *FAST, "--attempts", "1") as one:
        assert one.ended() == 128 + signal.SIGKILL
    assert one.err.count("has begun") == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["my_job"], "neither module:function nor a script"),
        (["my_job:pipeline", "more"], "only a script takes arguments"),
        (["my_job:pipeline", "--strategy", "fixed", "--interval-s", "3"], "--interval-s: not of --strategy fixed"),
        (["my_job:pipeline", "--jitter-factor", "2"], "jitter_factor is from 0 to 1"),
        (["my_job:pipeline", "--strategy", "none"], "exponential"),
        (["my_job:pipeline", "--health-port", "65536"], "health=65536 is no place to serve at"),
        (["my_job:pipeline", "--metrics-host", "0.0.0.0"], "say both"),
        (["my_job:pipeline", "--ui-port", "1", "--ui-host", "0.0.0.0"], "there is no token"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_started(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["run", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert told in result.output


def test_options_of_a_query_s_start_are_refused_for_a_script(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.touch()
    result = CliRunner().invoke(app, ["run", str(script), "--metrics-port", "1"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "--metrics-port" in result.output
