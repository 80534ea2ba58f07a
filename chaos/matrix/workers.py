"""Test benches side by side, since half of a case is waiting: each is a process with servers and JVMs of its own.

Which case is whose is decided as they come: a worker takes the next one when it is done with the one before. Workers
are ended by their parent alone, with SIGTERM, and then leave nothing running.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Callable, Sequence
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.chaos.matrix.case import Case
from tpc.chaos.matrix.pipeline import SPARK
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.running.signals import terminated_as_interrupt
from tpc.errors import ConfigurationError, LocalStackError
from tpc.support.process_trees import end_with_parent

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

SERVERS, WORK = "servers", "work"
"""Where a worker's servers and cases lie, in the run's directory."""
POLL_S = 0.5
END_WITHIN_S = 60.0

_CASE, _NEWS, _ERROR = "case", "news", "error"


def run_cases(
    cases: Sequence[Case],
    directory: Path,
    seed: int,
    *,
    workers: int,
    on_case: Callable[[CaseRecord], None],
    say: Callable[[str], None] = lambda _line: None,
) -> None:
    """Run all cases in `workers` test benches; `on_case` gets each record, in the order in which they end.

    Raises `LocalStackError` when a bench cannot be had, or its process ends by itself. No worker is left.
    """
    context = multiprocessing.get_context("spawn")
    todo: Queue[int | None] = context.Queue()
    told: Queue[tuple[str, Any]] = context.Queue()
    workers = min(workers, len(cases))
    for number in [*range(len(cases)), *[None] * workers]:
        todo.put(number)
    processes = [
        context.Process(target=_work, args=(number, directory, cases, seed, todo, told), name=f"test bench {number}")
        for number in range(workers)
    ]
    try:
        for process in processes:
            process.start()
        _follow(processes, len(cases), told, on_case, say)
    finally:
        _end(processes)


def _follow(
    processes: Sequence[SpawnProcess],
    left: int,
    told: Queue[tuple[str, Any]],
    on_case: Callable[[CaseRecord], None],
    say: Callable[[str], None],
) -> None:
    while left:
        try:
            kind, what = told.get(timeout=POLL_S)
        except queue.Empty:
            if gone := [process for process in processes if process.exitcode not in (None, 0)]:
                raise LocalStackError(f"{gone[0].name} has ended with exit code {gone[0].exitcode}") from None
            continue
        if kind == _CASE:
            left -= 1
            on_case(what)
        elif kind == _NEWS:
            say(what)
        else:
            raise what


def _end(processes: Sequence[SpawnProcess]) -> None:
    """Those that are through end by themselves; the others are told to, and killed if they do not."""
    for process in processes:
        process.join(POLL_S)
        if process.is_alive():
            process.terminate()
    for process in processes:
        process.join(END_WITHIN_S)
        process.kill()
        process.join()


def _work(
    number: int,
    directory: Path,
    cases: Sequence[Case],
    seed: int,
    todo: Queue[int | None],
    told: Queue[tuple[str, Any]],
) -> None:
    from tpc.chaos.matrix import set_ups
    from tpc.chaos.matrix.bench import SESSIONS, ProxiedStack, started_bench

    def say(line: str) -> None:
        told.put((_NEWS, line))

    # A terminal's Ctrl-C reaches everybody; the parent sees to it. A handler, unlike SIG_IGN, is not inherited.
    signal.signal(signal.SIGINT, lambda *_: None)
    end_with_parent()
    name = str(number)
    sessions = SESSIONS if any(case.pipeline == SPARK for case in cases) else 0
    try:
        with (
            terminated_as_interrupt(),
            ProxiedStack(directory / SERVERS / name, say) as stack,
            started_bench(directory / WORK / name, stack, say, sessions=sessions) as bench,
        ):
            say("running")
            while (index := todo.get()) is not None:
                told.put((_CASE, set_ups.run(cases[index], bench, seed)))
    except KeyboardInterrupt:
        told.cancel_join_thread()
    except (ConfigurationError, LocalStackError) as error:
        told.put((_ERROR, error))
