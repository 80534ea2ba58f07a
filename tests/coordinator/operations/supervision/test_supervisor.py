"""Real processes under the supervisor: restarted until they end for good, and nothing of them is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.processes import eventually, line, python, runs
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED, EXIT_PARKED, exit_code_for
from tpc.coordinator.operations.supervision.restarts import (
    ExponentialDelay,
    Failure,
    FailureRate,
    FixedDelay,
    RestartStrategy,
)
from tpc.coordinator.operations.supervision.supervisor import Stop, SupervisorEvent, supervise
from tpc.errors import (
    CheckpointInUseError,
    ConfigurationError,
    FencedError,
    ParkedError,
    RepairNeededError,
    SchemaChangedError,
)

AT_ONCE = FixedDelay(attempts=3, delay_s=0.01)
STRATEGIES = [AT_ONCE, ExponentialDelay(initial_backoff_s=0.01), FailureRate(delay_s=0.01)]


def supervised(code: str, *arguments: object, strategy: RestartStrategy = AT_ONCE) -> tuple[int, list[SupervisorEvent]]:
    events: list[SupervisorEvent] = []
    command = [sys.executable, "-S", "-c", code, *map(str, arguments)]
    return supervise(command, strategy=strategy, on_event=events.append), events


def kinds(events: Sequence[SupervisorEvent]) -> list[str]:
    return [event.kind for event in events]


SUCCEEDS_AT_THE_THIRD = """
import sys, pathlib
runs = pathlib.Path(sys.argv[1])
count = len(runs.read_text()) if runs.exists() else 0
runs.write_text("x" * (count + 1))
sys.exit(0 if count == 2 else 1)
"""


def test_a_process_that_dies_is_restarted_until_it_succeeds(tmp_path: Path) -> None:
    code, events = supervised(SUCCEEDS_AT_THE_THIRD, tmp_path / "runs")
    assert code == 0
    assert kinds(events) == [*["started", "ended", "waits"] * 2, "started", "ended"]
    assert [event.restarts for event in events if event.kind == "started"] == [0, 1, 2]
    assert [event.code for event in events if event.kind == "ended"] == [1, 1, 0]


def test_a_killed_process_is_restarted_too(tmp_path: Path) -> None:
    killed_first = SUCCEEDS_AT_THE_THIRD.replace("sys.exit", "import os; count == 2 or os.kill(0, 9); sys.exit")
    code, events = supervised(killed_first, tmp_path / "runs")
    assert code == 0
    assert [event.code for event in events if event.kind == "ended"] == [-9, -9, 0]


def test_after_the_limit_it_gives_up_with_the_last_exit_code() -> None:
    code, events = supervised("import sys; sys.exit(3)")
    assert code == 3
    assert kinds(events).count("started") == 1 + 3
    assert events[-1] == SupervisorEvent("gave up", 0, 3, 3, "the strategy allows no restart after 3 of them")


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: type(strategy).__name__)
@pytest.mark.parametrize(("final", "word"), [(EXIT_FENCED, "fenced"), (EXIT_PARKED, "parked")])
def test_no_strategy_restarts_a_process_whose_exit_code_is_final_and_the_last_event_says_why(
    final: int, word: str, strategy: RestartStrategy
) -> None:
    code, events = supervised(f"import sys; sys.exit({final})", strategy=strategy)
    assert code == final
    assert kinds(events) == ["started", "ended"]
    assert events[-1].why.startswith(f"{word}: ")


def test_a_strategy_is_told_every_failure_with_how_long_the_process_had_run() -> None:
    told: list[Sequence[Failure]] = []

    class Asking:
        def wait_s(self, failures: Sequence[Failure]) -> float | None:
            told.append(tuple(failures))
            return 0.0 if len(told) < 3 else None

    supervised("import sys, time; time.sleep(0.2); sys.exit(1)", strategy=Asking())
    assert [len(failures) for failures in told] == [1, 2, 3]
    assert all(failure.ran_s >= 0.2 for failure in told[-1])
    assert told[-1][0].at_s < told[-1][1].at_s < told[-1][2].at_s


STOPS_AT_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[2])))
open(sys.argv[1], "w").close()
time.sleep(600)
"""


def stopped(code: str, ready: Path, *arguments: object) -> tuple[int, list[SupervisorEvent]]:
    """A supervised program that is asked to stop when it has made the file `ready`; asked again with `twice`."""
    events: list[SupervisorEvent] = []
    stop = Stop()

    def ask() -> None:
        eventually(ready.exists, "the program is ready")
        stop.ask()
        if "twice" in arguments:
            eventually(lambda: "stopping" in kinds(events), "the program is asked")
            stop.ask()

    asking = threading.Thread(target=ask)
    asking.start()
    command = [sys.executable, "-S", "-c", code, str(ready), *map(str, arguments)]
    result = supervise(command, strategy=AT_ONCE, on_event=events.append, stop=stop)
    asking.join()
    return result, events


@pytest.mark.parametrize("code", [0, 1])
def test_a_process_that_is_asked_to_stop_ends_by_itself_and_is_not_restarted(code: int, tmp_path: Path) -> None:
    result, events = stopped(STOPS_AT_SIGTERM, tmp_path / "ready", code)
    assert result == code
    assert kinds(events) == ["started", "stopping", "ended"]
    assert events[-1].why == "it was asked to stop"


def test_asked_a_second_time_the_process_is_killed(tmp_path: Path) -> None:
    deaf = STOPS_AT_SIGTERM.replace("lambda *_: sys.exit(int(sys.argv[2]))", "signal.SIG_IGN")
    result, events = stopped(deaf, tmp_path / "ready", "twice")
    assert result == -signal.SIGKILL
    assert kinds(events) == ["started", "stopping", "killed", "ended"]


def test_asked_to_stop_while_it_waits_it_starts_nothing_more() -> None:
    stop = Stop()
    events: list[SupervisorEvent] = []

    def on_event(event: SupervisorEvent) -> None:
        events.append(event)
        if event.kind == "waits":
            stop.ask()

    began = time.monotonic()
    command = [sys.executable, "-S", "-c", "import sys; sys.exit(3)"]
    assert supervise(command, strategy=FixedDelay(delay_s=600.0), on_event=on_event, stop=stop) == 3
    assert kinds(events) == ["started", "ended", "waits"]
    assert time.monotonic() - began < 60


def test_a_stop_may_be_asked_by_the_handler_of_a_signal_in_the_thread_that_waits(tmp_path: Path) -> None:
    stop = Stop()
    before = signal.signal(signal.SIGUSR1, lambda *_: stop.ask())
    try:
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGUSR1]).start()
        command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        assert supervise(command, stop=stop) == -signal.SIGTERM
    finally:
        signal.signal(signal.SIGUSR1, before)


GRANDCHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(f"{child.pid}\\n")
sys.exit(0)
"""


def test_the_end_of_a_process_ends_what_it_has_started(tmp_path: Path) -> None:
    supervised(GRANDCHILD, tmp_path / "pid")
    grandchild = int((tmp_path / "pid").read_text())
    eventually(lambda: not runs(grandchild), "the grandchild ends")


SUPERVISOR = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's children ignore it
from tpc.coordinator.operations.supervision.supervisor import supervise
sleep = "import time; time.sleep(600)"
code = f"import os, subprocess, sys; child = subprocess.Popen([sys.executable, '-S', '-c', '{sleep}']);" \\
    f"print(os.getpid(), child.pid, flush=True); {sleep}"
supervise([sys.executable, "-S", "-c", code])
"""


def test_ctrl_c_kills_the_whole_process_group_and_restarts_nothing() -> None:
    with python(SUPERVISOR) as supervisor:
        process, grandchild = map(int, line(supervisor).split())
        supervisor.send_signal(signal.SIGINT)
        assert supervisor.wait(20) != 0
        eventually(lambda: not runs(process) and not runs(grandchild), "both processes end")


def test_a_listener_that_raises_leaves_no_process_behind() -> None:
    started: list[int] = []

    def listener(event: SupervisorEvent) -> None:
        started.append(event.process)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        supervise([sys.executable, "-S", "-c", "import time; time.sleep(600)"], on_event=listener)
    assert not runs(started[0])


def test_the_exit_code_says_what_the_supervisor_shall_do() -> None:
    errors = [None, FencedError("x"), ParkedError("x"), RepairNeededError("x"), KeyboardInterrupt()]
    assert [exit_code_for(error) for error in errors] == [0, EXIT_FENCED, EXIT_PARKED, 1, 1]


@pytest.mark.parametrize("kind", [ConfigurationError, SchemaChangedError, CheckpointInUseError])
def test_what_a_start_refuses_is_worth_another_try(kind: type[ConfigurationError]) -> None:
    """A broker that has only just come up may not know its topics yet, and another process may be gone soon."""
    assert exit_code_for(kind("x")) == 1
