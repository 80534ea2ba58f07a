"""One program from its input to the checks: killed as planned, run to the end of its input, and compared.

The lives, their faults and the comparison of rows are those of `tpc chaos run`; the plan is another: every kill falls
into an epoch of its own, and there is no round in peace.
"""

from __future__ import annotations

from collections.abc import Callable

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import hits as hits_of
from tpc.chaos.faults.injector import HITS_FILE
from tpc.chaos.programs.kill_plan import check_kills, kill_plan
from tpc.chaos.programs.program import EXAMPLES, Program, check_examples
from tpc.chaos.runner.lives import LifeProcesses
from tpc.chaos.runner.rounds import Rounds
from tpc.chaos.running.owned_processes import tail
from tpc.chaos.user.account import Account, read_account
from tpc.chaos.user.directory import UserRunDirectory
from tpc.chaos.user.run import RunResult
from tpc.chaos.user.target import Target
from tpc.chaos.user.verdict import (
    check_end,
    check_expectation,
    check_run,
    not_compared_sinks,
)
from tpc.support.deadlines import Deadline

LIFE_LIMIT_S = 300.0
RUN_LIMIT_S = 1800.0
"""Kills that are not made by then are left out, and the check of their number fails."""
WORKER_DAEMON = "tpc.chaos.servers.worker_daemon"


def run_program(program: Program, paths: UserRunDirectory, seed: int, tell: Callable[[str], None]) -> RunResult:
    """Feed, kill and compare, on the servers that the environment names; `paths` is claimed. `tell` gets the news.

    Nothing that was started is left running. Raises `ConfigurationError` for what the servers hold already.
    """
    check_examples([program])
    tell(f"{program.name}: writing its input")
    program.feed(paths.work)
    account_file = paths.steps / "account"
    processes = LifeProcesses(
        ("tpc.chaos.user.life_program", f"{program.name}:pipeline"),
        paths.steps,
        paths.pipeline_log,
        limit_s=LIFE_LIMIT_S,
        limit_of="of a program's life",
        tell=tell,
        before=lambda life: program.arrive(life, paths.work),
        events_per_epoch=program.events_per_epoch,
    )
    rounds = Rounds(processes, _environment(paths))
    with processes:
        planned = iter(kill_plan(program.name, seed, program.epochs, quiet=program.quiet))
        rounds.disturbed(planned, Deadline(RUN_LIMIT_S), at_most=None, account=account_file)
    hits = hits_of.read(paths.steps / HITS_FILE)
    attempts = [attempt for attempt in rounds.attempts if attempt.lives]
    checks = [check_kills(attempts, hits), *check_run(rounds.codes, processes.lives, attempts)]
    account = read_account(account_file)
    outcome = RunResult(attempts, processes.lives, hits, checks, words=lambda _begin, _end: tail(paths.pipeline_log))
    if account is None:
        checks.append(Check("it came to the end of its input", False, tail(paths.pipeline_log)))
    else:
        tell(f"{program.name}: comparing with the computation in pandas")
        _judge(program, account, paths, outcome)
    return outcome


def _judge(program: Program, account: Account, paths: UserRunDirectory, outcome: RunResult) -> None:
    target = Target(program.name, program.expected, readers=program.readers)
    expected = target.expected_rows()
    check_expectation(target, account, expected)
    outcome.checks += check_end(target, account, expected, lambda text: text, own=lambda: program.checks(paths.work))
    outcome.not_compared += [
        one for one in not_compared_sinks(target, account, expected) if one.sink not in program.checked
    ]


def _environment(paths: UserRunDirectory) -> dict[str, str]:
    """As a user would have it who runs the program: it is importable, and finds the servers and its place.

    But that Spark's Python workers are forked with their imports done: each of six lives would make them four times.
    """
    return {
        **paths.environment(EXAMPLES),
        "SPARK_LOCAL_DIRS": str(paths.temporary),
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.python.daemon.module={WORKER_DAEMON} pyspark-shell",
    }
