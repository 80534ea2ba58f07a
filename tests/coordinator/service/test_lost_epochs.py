"""A decided epoch of which several branches are lost: run again as it was, or refused, and then left to an operator."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.program import Die
from tpc import failpoints
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.service.epoch_input import cuts_of
from tpc.coordinator.service.running import check_repairable
from tpc.errors import ConfigurationError, StateLostError
from tpc.sinks import FileSink
from tpc.sources import IterableSource

LOSING = 2
"""The epoch that loses its branches."""


class Program:
    """Two sources, of which one tells the time; a state that expires, an object, and what both show as rows."""

    def __init__(self, directory: Path, *lost: str) -> None:
        self.directory = directory
        self.lost = lost
        self.timed: list[tuple[int, int]] = []
        self.others: list[int] = []

    def come(self, events: int) -> None:
        """More events of both sources."""
        numbers = range(len(self.others), len(self.others) + events)
        self.timed += [(number, number * 1_000) for number in numbers]
        self.others += numbers

    def lose(self) -> None:
        """Run an epoch of four events after the other, and lose branches of one of them when it is decided."""
        for _ in range(LOSING):
            self.come(2)
            self.run()
        self.come(2)
        with pytest.raises(Die):
            self.run(dies=True)

    def run(self, every: int = 100, *, dies: bool = False) -> None:
        service = tpc.service("both", directory=self.directory / "service")
        timed = service.read(IterableSource(lambda: self.timed, name="timed"), time=lambda event: int(event[1]))
        others = service.read(IterableSource(lambda: self.others, name="others"))
        sums: Any = service.state("sums", ttl=tpc.seconds(5))
        seen = service.keep("seen", tpc.make_transactional([0]))

        @service.each(timed)
        def add(event: tuple[int, int], out: Any) -> None:
            sums[event[0] % 3] = sums.get(event[0] % 3, 0) + event[0]
            out.row("rows", {"of": "timed", "n": event[0], "shows": sums[event[0] % 3]})

        @service.each(others)
        def learn(number: int, out: Any) -> None:
            seen.value.append(number)
            out.row("rows", {"of": "others", "n": number, "shows": sum(seen.value)})

        service.write("rows", {"of": str, "n": int, "shows": int}).to(FileSink(self.directory / "out", name="out"))
        failpoints.install({"epoch.decided": self._lose} if dies else {})
        try:
            service.run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def _lose(self, step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] != LOSING:
            return
        for name in self.lost:
            if name == "out":
                staged = [path for path in (self.directory / "out").rglob("*.parquet") if path.parent.name != "out"]
                assert staged
                for path in staged:
                    path.unlink()
            else:
                with closing(sqlite3.connect(self.directory / "service" / "state" / f"{name}.db")) as store, store:
                    store.execute("DELETE FROM changes WHERE delta = (SELECT delta FROM deltas WHERE applied = 0)")
                    assert store.execute("DELETE FROM deltas WHERE applied = 0").rowcount == 1
        raise Die(step)

    def shown(self) -> list[tuple[str, int, int]]:
        paths = (self.directory / "out").glob("*.parquet")
        return sorted((row["of"], row["n"], row["shows"]) for path in paths for row in pq.read_table(path).to_pylist())

    def expected(self) -> list[tuple[str, int, int]]:
        """No key expires: every third event comes within its time to live."""
        of_timed = [("timed", n, sum(each for each in range(n + 1) if each % 3 == n % 3)) for n, _ in self.timed]
        return sorted([*of_timed, *(("others", n, sum(range(n + 1))) for n in self.others)])


PAIRS = [pytest.param(two, marks=pytest.mark.slow) for two in (("out", "sums"), ("sums", "seen"))]


@pytest.mark.slow
@pytest.mark.parametrize("lost", [*PAIRS, ("out", "sums", "seen")])
def test_several_lost_branches_are_written_again_as_they_were(lost: tuple[str, ...], tmp_path: Path) -> None:
    program = Program(tmp_path, *lost)
    program.lose()
    program.come(5)  # a replay ends where the epoch did
    program.run(every=3)
    assert program.shown() == program.expected()


@pytest.mark.parametrize("lost", ["out", "sums", pytest.param("seen", marks=pytest.mark.slow)])
def test_what_no_source_holds_any_more_is_given_up_on_the_record_and_the_service_goes_on(
    lost: str, tmp_path: Path
) -> None:
    program = Program(tmp_path, lost)
    program.lose()
    held = program.timed, program.others
    program.timed, program.others = [], []
    with pytest.raises(StateLostError):
        program.run()
    program.timed, program.others = held
    loss = ("--accept-loss", "--although-not-refused")
    decision = ["--epoch", str(LOSING), "--sink", lost, *loss, "--reason", "the source has lost it"]
    told = CliRunner().invoke(app, ["resolve", str(tmp_path / "service"), *decision])
    assert told.exit_code == 0, told.output
    assert (f"{lost} is a state: it goes on as it was before epoch {LOSING}" in told.output) is (lost != "out")
    program.come(5)
    program.run(every=3)
    shown, expected = program.shown(), program.expected()
    if lost == "out":  # the epoch's rows are missing and nothing else: what comes after rests on the states
        assert (len(shown), set(shown) < set(expected)) == (len(expected) - 4, True)
    else:  # every row is there, and the later ones do not show what the state has lost
        assert [row[:2] for row in shown] == [row[:2] for row in expected]
        assert shown != expected


def test_the_error_of_a_state_whose_source_is_not_read_any_more_says_what_giving_it_up_costs(tmp_path: Path) -> None:
    program = Program(tmp_path, "sums")
    program.lose()
    manifest = Journal(LocalLog(tmp_path / "service" / "tpc" / "log")).open().pending
    assert manifest is not None
    lost = [str(branch.committable.handle) for sink, branch in manifest.branches() if sink == "sums"]
    with pytest.raises(ConfigurationError, match=r"`command of sums`\. sums is a state: it goes on as .* epoch 2, and"):
        check_repairable(manifest, lost, cuts_of(manifest), [], "command of {}".format)
