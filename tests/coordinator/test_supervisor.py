"""Real processes under the supervisor: restarted until they end for good, and nothing of them is left."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.processes import eventually, line, python, runs
from tpc.coordinator.supervisor import (
    EXIT_FENCED,
    EXIT_PARKED,
    ExponentialDelay,
    FixedDelay,
    RestartStrategy,
    SupervisorEvent,
    exit_code_for,
    supervise,
)
from tpc.errors import FencedError, ParkedError, RepairNeededError

AT_ONCE = FixedDelay(seconds=0.01, limit=3)


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
    assert kinds(events) == ["started", "ended"] * 3
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
    assert kinds(events).count("started") == 1 + AT_ONCE.limit
    assert events[-1] == SupervisorEvent("gave up", 0, AT_ONCE.limit, 3)


@pytest.mark.parametrize("final", [EXIT_FENCED, EXIT_PARKED], ids=["fenced", "parked"])
def test_a_fenced_or_parked_process_is_not_restarted(final: int) -> None:
    code, events = supervised(f"import sys; sys.exit({final})")
    assert code == final
    assert kinds(events) == ["started", "ended"]


def test_a_process_that_was_healthy_for_long_starts_the_count_anew() -> None:
    delays: list[int] = []

    class Counting:
        def delay_s(self, failures: int) -> float | None:
            delays.append(failures)
            return 0.0 if len(delays) < 3 else None

    command = [sys.executable, "-S", "-c", "import sys; sys.exit(1)"]
    supervise(command, strategy=Counting(), healthy_after_s=0.0)
    assert delays == [1, 1, 1]


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
from tpc.coordinator.supervisor import supervise
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


def test_the_exponential_delay_grows_to_its_bound_and_ends_at_its_limit() -> None:
    strategy = ExponentialDelay(seconds=1.0, factor=3.0, max_seconds=5.0, limit=4)
    assert [strategy.delay_s(failures) for failures in range(1, 6)] == [1.0, 3.0, 5.0, 5.0, None]


def test_the_exit_code_says_what_the_supervisor_shall_do() -> None:
    errors = [None, FencedError("x"), ParkedError("x"), RepairNeededError("x"), KeyboardInterrupt()]
    assert [exit_code_for(error) for error in errors] == [0, EXIT_FENCED, EXIT_PARKED, 1, 1]
