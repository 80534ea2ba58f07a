"""Dead letters of a pipeline: where the rows go that one of its sinks refuses, and how many there may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.kernel.feeding.dead_letter_limit import DeadLetterLimit
from tpc.coordinator.kernel.feeding.refused_rows import COLUMNS, DIGEST, LetterWork
from tpc.coordinator.spark.passes.routes import Writing
from tpc.errors import ConfigurationError, DataError
from tpc.history import History
from tpc.sink import Sink

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class DeadLetters:
    """As the user says it. `select` are the columns of a letter, each with its name in the sink."""

    sink: Sink
    select: Mapping[str, str]
    bound: DeadLetterLimit

    @classmethod
    def of(cls, sink: Sink, select: Sequence[str] | Mapping[str, str] | None, bound: DeadLetterLimit) -> DeadLetters:
        """Raises `ConfigurationError` for columns that a letter has not, and for a sink that merges."""
        names = COLUMNS if select is None else select
        renamed = names if isinstance(names, Mapping) else {name: name for name in names}
        if not renamed or not set(renamed.values()) <= set(COLUMNS):
            raise ConfigurationError(
                f"dead letters with select={select!r}",
                sink=sink.name,
                remedy=f"a dead letter has the columns {', '.join(COLUMNS)}; a mapping is of new names to these.",
            )
        if len(set(renamed.values())) != len(renamed):
            raise ConfigurationError(
                "a column of dead letters is selected twice", sink=sink.name, remedy="select it once."
            )
        if sink.merge is not None:
            raise ConfigurationError(
                "dead letters go to a sink that merges by key",
                sink=sink.name,
                remedy="give a sink that appends rows (no key=): two letters of one key would become one.",
            )
        return cls(sink, {column: name for name, column in renamed.items()}, bound)

    def refuse_shared(self, sinks: Collection[str]) -> None:
        """Raise `ConfigurationError` where the sink takes other rows too."""
        if self.sink.name in sinks:
            raise ConfigurationError(
                "the sink of the dead letters takes other rows too",
                sink=self.sink.name,
                remedy="give dead_letters_to() a sink of its own.",
            )

    def schema(self) -> pyarrow.Schema:
        """Of the rows that the sink gets."""
        import pyarrow as pa

        return pa.schema([pa.field(name, pa.string()) for name in self.select.values()])

    def work(self, writings: Sequence[Writing], *, exact: bool) -> LetterWork:
        """What the partitions need to know."""
        route = RoutePlan(self.sink.name, len(writings), DIGEST, tuple(self.select.items()), exact)
        return LetterWork(route, tuple(writing.name for writing in writings), is_asked=False, may_ask=True)


@dataclass(frozen=True)
class LettersSoFar:
    """The bound of the dead letters, at the begin of an epoch: what was decided before counts too."""

    bound: DeadLetterLimit
    history: History

    def refuse_too_many(self, letters: int, rows: int, told: Sequence[str]) -> None:
        """Raise `DataError` where sinks refuse too many of the last rows: the program is wrong then, not they."""
        if (tally := self.bound.too_many(letters, rows, self.history)) is None:
            return
        raise DataError(
            f"the last {tally.read} rows would make {tally.letters} dead letters, for more than "
            f"{self.bound.max_share:.0%} of them. {letters} are of this epoch: {'; '.join(told)}",
            sink=self.bound.sink,
            remedy="correct the program, or what fills the source, then start it again: the epoch is repeated whole. "
            "If so many are right, pipeline.dead_letters_to(sink, max_share=1.0).",
        )
