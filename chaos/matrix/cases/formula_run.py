"""A case whose pipeline reads rows by formula, so that it can be judged row by row however many they are."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tpc.chaos.checkers.compare import Check
from tpc.chaos.matrix.case_run import EPOCHS
from tpc.chaos.matrix.cases.special import SpecialRun
from tpc.chaos.matrix.load_judging import LoadJudge, LoadReaders
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH
from tpc.chaos.matrix.variants import Formula

SUITE = "load"
"""The suite of such cases."""


class FormulaRun(SpecialRun):
    """The pipeline reads `count` rows by formula; it is judged row by row."""

    formula = Formula()
    count = EPOCHS * ROWS_PER_EPOCH
    follow_kafka = True

    def _feed(self) -> None:
        self.bench.servers.feed(self.pipeline, self.formula.rows(0, self.count))

    def _watching(self) -> AbstractContextManager[None]:
        self.followed = LoadReaders(self.pipeline, follow_kafka=self.follow_kafka)
        return self.followed.watching()

    def _judge(self) -> list[Check]:
        return LoadJudge(self.pipeline, self.formula, self.count, self.followed, self.disturbed).checks()
