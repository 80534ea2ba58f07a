"""A case that timed out before its first fault is set up again, twice at most, and tells so; no other is run again."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from tests.chaos.matrix.nowhere import BenchWithoutServers
from tpc.chaos.faults.fault import KILL
from tpc.chaos.matrix import set_ups
from tpc.chaos.matrix.bench import MatrixBench
from tpc.chaos.matrix.case import Case, CaseFailedError
from tpc.chaos.matrix.case_run import CaseRun
from tpc.chaos.matrix.cases.cell_cases import fault_at
from tpc.chaos.matrix.command import _line
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.matrix.set_ups import NotSetUpError, never_made, setting_up
from tpc.chaos.reports.tally import FAILED, PASSED

FAULT = fault_at("epoch.prepared", KILL)
ENDED = "life 0 ended with exit code 1 without it"


@dataclass(frozen=True)
class Preparing(Case):
    """A case whose runs are prepared with these errors, one each, and then pass."""

    errors: list[Exception] = field(default_factory=list)

    def run(self, bench: MatrixBench, seed: int) -> CaseRecord:
        errors = self.errors

        class Run(CaseRun):
            def _prepare(self) -> None:
                if errors:
                    raise errors.pop(0)

            def _carry_out(self) -> None:
                if errors:
                    super()._carry_out()

        return Run(bench, self, seed).run()


def run(directory: Path, *errors: Exception) -> CaseRecord:
    bench: Any = BenchWithoutServers(directory)
    return set_ups.run(Preparing("slow", "matrix", FAULT, errors=list(errors)), cast("MatrixBench", bench), 1)


def test_a_case_that_timed_out_while_it_was_set_up_is_set_up_again_and_tells_so(tmp_path: Path) -> None:
    record = run(tmp_path, TimeoutError("no topic"), RuntimeError("KafkaError{code=_TIMED_OUT}"))
    assert (record.outcome, record.not_set_up) == (PASSED, False)
    assert len(record.set_up_again) == set_ups.AGAIN
    assert "could not be set up in time: TimeoutError: no topic" in record.set_up_again[0]
    screen = Console(file=io.StringIO(), width=500)
    screen.print(_line(record))
    assert "set up again (2 x)" in cast("io.StringIO", screen.file).getvalue()
    assert record.to_json()["set_up_again"] == record.set_up_again


def test_a_case_is_set_up_three_times_in_all(tmp_path: Path) -> None:
    record = run(tmp_path, *[TimeoutError(f"try {number}") for number in range(5)])
    assert (record.outcome, record.not_set_up, len(record.set_up_again)) == (FAILED, True, 2)
    assert "try 2" in record.reason


def test_an_error_that_is_not_of_time_is_the_result(tmp_path: Path) -> None:
    record = run(tmp_path, PermissionError("no mount"))
    assert (record.outcome, record.not_set_up, record.set_up_again) == (FAILED, False, [])
    with pytest.raises(CaseFailedError, match="as it is"), setting_up():
        raise CaseFailedError("as it is: timed out")


def test_only_a_first_life_that_ended_with_a_time_out_of_the_library_may_be_repeated() -> None:
    late = "Traceback\ntpc.errors.TransientError: the Kafka cluster did not answer. Safe: x\nlife 0 ends\n"
    error = never_made(ENDED, late, is_first=True)
    assert isinstance(error, NotSetUpError)
    assert "did not answer" in str(error)
    other = "tpc.errors.HistoryMismatchError: the sink reports epoch 3\nwaiting for sink x: timed out\n"
    for log, first in ((late, False), (other, True), ("", True)):
        assert not isinstance(never_made(ENDED, log, is_first=first), NotSetUpError)
