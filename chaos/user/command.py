"""`tpc chaos run`: the user's pipeline or service under faults, on local servers or the user's, and the verdict on it.

What is done with the pipeline is in `run`; here are the servers around it, what stays, and the exit code.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from tpc.chaos.reports.matrix import write_matrix_report
from tpc.chaos.running.commands import exit_code
from tpc.chaos.running.extra_demo import POSTGRES, REPORTS_AND_JARS, require_packages
from tpc.chaos.servers.stack import VARIABLES, Stack, in_environment
from tpc.chaos.user.directory import VARIABLE, UserRunDirectory
from tpc.chaos.user.plan import parse_kinds
from tpc.chaos.user.record import end_json, fault_json, left_json, run_json
from tpc.chaos.user.run import LIFE_LIMIT_S, RunResult, UserRun
from tpc.chaos.user.screen import Screen
from tpc.chaos.user.secrets import hiding
from tpc.chaos.user.target import check_name, load_target

DIRECTORY = Path("tpc-chaos-run")
MINUTES = 5.0


def run_user_pipeline(
    target: str,
    *,
    faults: str = "all",
    minutes: float = MINUTES,
    seed: int = 1,
    local_stack: bool = False,
    directory: Path | str = DIRECTORY,
    expect: str | None = None,
    life_limit_s: float = LIFE_LIMIT_S,
    events_per_epoch: int | None = None,
    console: Console | None = None,
) -> int:
    """Run `target` (`module:function`) under faults. 0: every check holds. 1: one does not. 2: it could not be run.

    `faults` is "all" or some kinds with commas between; `minutes` is for how long there are faults; `expect` names a
    function for the expected rows in the place of `expected` in the target's module. `life_limit_s` is how long the
    first round may take, and every life of a target without `feed`. `events_per_epoch`, of a service only, is where its
    epochs are cut. `local_stack` starts local servers in `directory`
    and sets TPC_KAFKA, TPC_POSTGRES and TPC_MONGO. Ctrl-C gives 130. Nothing that was started is left running, whatever
    happens, and the faults that were made are recorded.
    """
    console = console or Console(highlight=False)
    paths = UserRunDirectory(Path(directory).resolve())
    screen = Screen(console)
    settings = {"target": target, "faults": faults, "minutes": minutes, "seed": seed, "local stack": local_stack}
    settings["life limit"] = life_limit_s
    if events_per_epoch is not None:
        settings["events per epoch"] = events_per_epoch
    results = _Results(paths, screen, settings)

    def run() -> bool:
        kinds = parse_kinds(faults)
        _require_packages(local_stack=local_stack)
        check_name(target)
        paths.claim()
        stack = Stack(paths.servers, report=screen.tell) if local_stack else None
        with results.kept(), in_environment(stack, {VARIABLE: str(paths.work)}):
            loaded = load_target(target, expect)
            results.user_run = UserRun(
                *(loaded, paths, kinds, seed, screen.tell),
                life_limit_s=life_limit_s,
                events_per_epoch=events_per_epoch,
            )
            results.outcome = results.user_run.run(minutes)
        return results.passed

    return exit_code(run, console)


def _require_packages(*, local_stack: bool) -> None:
    """Raise `NotInstalledError` for what would be missed later: the report is made when all faults are."""
    postgres = [POSTGRES] if local_stack and not os.environ.get(VARIABLES["postgres"]) else []
    require_packages("chaos", [*REPORTS_AND_JARS, *postgres])


class _Results:
    """What stays of a run: the record and the report, also of one that was left before its end."""

    def __init__(self, paths: UserRunDirectory, screen: Screen, settings: Mapping[str, Any]) -> None:
        self.paths = paths
        self.screen = screen
        self.settings = settings
        self.began_at = time.time()
        self.user_run: UserRun | None = None
        self.outcome: RunResult | None = None

    @property
    def passed(self) -> bool:
        """Whether it came to its end and every check holds."""
        return self.outcome is not None and all(check.passed for check in self.outcome.checks)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Writes down what there is when the run has ended, however it did, and then tidies up."""
        try:
            yield
            if self.outcome is not None:
                self._tell(self.outcome)
        except BaseException as error:
            if self.user_run is not None and self.outcome is None:
                self._record_left(self.user_run, error)
            raise
        finally:
            self.paths.tidy(keep_work=not self.passed)

    def _tell(self, outcome: RunResult) -> None:
        cases = self._cases(outcome)
        self._write(outcome, [*cases, end_json(outcome.checks, self.settings["seed"], outcome.words(0, None))])
        self.screen.faults(cases)
        self.screen.verdict(cases, outcome.checks, outcome.not_compared, outcome.unplaced)
        self._tell_where()

    def _record_left(self, user_run: UserRun, error: BaseException) -> None:
        seen = user_run.seen()
        if not seen.attempts:
            return
        why = "it was stopped" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        if user_run.sinks and str(error):  # else it is not known what is secret in it
            why += f": {hiding(user_run.sinks)(str(error))}"
        self._write(seen, [*self._cases(seen), left_json(why, self.settings["seed"], seen.words(0, None))])
        self._tell_where()

    def _cases(self, outcome: RunResult) -> list[dict[str, Any]]:
        seed = self.settings["seed"]
        return [fault_json(attempt, seed, outcome.hits, outcome.words) for attempt in outcome.attempts]

    def _write(self, outcome: RunResult, cases: Sequence[Mapping[str, Any]]) -> None:
        record = run_json(self.settings, self.began_at, cases, outcome.not_compared, outcome.unplaced)
        self.paths.result.write_text(json.dumps(record, indent=1))
        write_matrix_report(self.paths.report, record)

    def _tell_where(self) -> None:
        self.screen.console.print("report ", self.paths.report.as_uri(), soft_wrap=True)
        self.screen.console.print("record ", str(self.paths.result), soft_wrap=True)
