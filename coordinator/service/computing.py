"""The rows and changes of one epoch: the functions are run over its events, and events that they refuse are found.

An epoch is run as if nothing were refused. Where something is, all of it is dropped and the epoch is run once more,
each event so that it alone can be undone (`function_runs.Guard`): with events that are decoded once more, since a
function may have changed them. A source that cannot decode again is run like that from the start, if there are dead
letters.

A row that a sink refuses shows only when it is written (`loop_pass`). Then the epoch is run event by event once more,
and the sinks are asked of each event whether they take its rows: a refusal undoes the event, so that what it did to
states is not there for the next one. Each event is judged by itself, so that it is the same wherever epochs are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tpc.coordinator.kernel.feeding.letter_bound import COUNT
from tpc.coordinator.service.barriers import Lives
from tpc.coordinator.service.cut_events import CutEvents, Refusal
from tpc.coordinator.service.cutting import Cut
from tpc.coordinator.service.emitted import Emitted
from tpc.coordinator.service.function_runs import Guard, run_functions
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.refusals import error_of, placed, placed_between
from tpc.coordinator.service.row_checks import RowChecks
from tpc.errors import ConfigurationError, DataError
from tpc.event_time import EpochTime
from tpc.history import History
from tpc.json import JSONObject

if TYPE_CHECKING:
    import pyarrow

    Made = list[tuple[int, "pyarrow.RecordBatch"]]

Positions = Mapping[str, "JSONObject | None"]
"""Where each changelog stands before an epoch, by its sink's name."""


class Guarded(NamedTuple):
    """The epoch is run event by event; with `checks` the sinks are asked whether they take what each event makes."""

    checks: RowChecks | None


class Computation:
    """Of one epoch: `run` is called once, `without_refused` perhaps once after it.

    `misused` holds what was raised where an `out` was used wrongly. `decided_letters` is how many dead letters the
    epoch has, None as long as it is not decided.
    """

    def __init__(
        self,
        program: Program,
        epoch: int,
        cut: Cut,
        lives: Lives,
        positions: Positions,
        misused: list[ConfigurationError],
        history: History,
        *,
        decided_letters: int | None = None,
    ) -> None:
        self._program = program
        self._epoch = epoch
        self._cut = cut
        self._lives = lives
        self._positions = positions
        self._misused = misused
        self._history = history
        self._rows = cut.rows
        self._decided_letters = decided_letters
        self._remembered: dict[str, Callable[[], CutEvents]] = {}
        """What gives the events once more, by the name of their source."""
        self._refused: Sequence[Refusal] = ()
        """Of the last run."""

    @property
    def has_letters(self) -> bool:
        """Whether a refused event becomes a dead letter."""
        return self._program.dead_letters is not None

    def counts(self) -> Mapping[str, int]:
        """What the epoch's manifest counts, once it is computed: events, and those that became dead letters."""
        letters = {COUNT: len(self._refused)} if self.has_letters else {}
        return {"rows": self._rows, **letters}

    def placed(self, error: DataError) -> DataError:
        """An error of a row that comes once the events are gone, with the positions that they were read between."""
        return placed_between(self._cut.sources, error)

    def run(self, checks: RowChecks) -> Made:
        """The batches of the epoch, each with the number of its writing. Raises what ends the epoch."""
        events, time = self._cut.take(), self._cut.time
        letters = self._program.dead_letters
        if letters is None and (refused := _refused(events)):
            raise error_of(refused[0]) from refused[0].error
        is_fresh_again = all(each.is_fresh_again for each in events.values())
        if letters is not None and not is_fresh_again:
            return self._run(events, time, Guarded(checks))
        if letters is not None:
            self._remembered = {name: each.remembered() for name, each in events.items()}
        made = self._run_unguarded_first(events, time, is_fresh_again=is_fresh_again)
        if self._decided_letters and len(self._refused) < self._decided_letters:
            return self._again(checks)  # the others were refused by sinks
        return made

    def without_refused(self, checks: RowChecks) -> Made | None:
        """The same without the events of which a sink refuses a row, after one has refused something.

        None where no event can be blamed for that: then the epoch cannot go on. Nor can one that is decided, in which
        the sink has taken all rows.
        """
        if not self._remembered or self._decided_letters is not None:
            return None
        made = self._again(checks)
        return made if any(each.sink is not None for each in self._refused) else None

    def _again(self, checks: RowChecks) -> Made:
        events = {name: remembered() for name, remembered in self._remembered.items()}
        self._remembered = {}
        for state in self._program.states:
            state.abandon()
        return self._run(events, self._cut.time, Guarded(checks))

    def _run_unguarded_first(self, events: Mapping[str, CutEvents], time: EpochTime, *, is_fresh_again: bool) -> Made:
        letters = self._program.dead_letters
        try:
            return self._run(events, time, None)
        except DataError as error:
            if letters is None and error.position is not None:
                raise  # it is known which event it is
            if not is_fresh_again:
                raise placed(error, events)  # noqa: B904  it is the same error
            events = {name: each.again() for name, each in events.items()}
            for state in self._program.states:
                state.abandon()
            made = self._run(events, time, Guarded(None))
            if letters is None:  # what has failed is right now: the program does not do the same twice
                raise placed(error, events)  # noqa: B904  it is the same error
            return made

    def _run(self, events: Mapping[str, CutEvents], time: EpochTime, guarded: Guarded | None) -> Made:
        program, letters = self._program, self._program.dead_letters
        for state in program.states:
            state.begin(self._epoch, time.watermark_ms, time.reached_ms, self._lives.get(state.name))
        out = Emitted(program.made_by_functions, self._epoch, time.watermark_ms, self._misused)
        refused = None if letters is None else _refused(events)
        guard = None if guarded is None else Guard(program.states, out, refused, guarded.checks)
        try:
            run_functions(program.functions, program.inputs, events, program.states, out, guard, time=time)
            made: Made = out.batches()
            made += self._changes()
        except DataError as error:
            raise error if guarded is None else placed(error, events)  # noqa: B904  it is the same error
        finally:
            out.end()
        if self._misused:  # by whoever has kept it for himself
            raise self._misused[0]
        self._refused = refused or ()
        if letters is not None and refused:
            if self._decided_letters is None:  # of a decided epoch they are as many as they are
                letters.require_few(refused, self._rows, self._history)
            made += [(len(program.made_by_functions), batch) for batch in letters.batches(refused)]
        return made

    def _changes(self) -> Made:
        program = self._program
        first = len(program.writings) - len(program.states) - len(program.logged)
        changed = [(number, state.changes()) for number, state in enumerate(program.states, first)]
        for number, (state, logged) in enumerate(program.logged, first + len(program.states)):
            changed += [(number, batch) for batch in state.logged(self._positions.get(logged.log_name))]
        return [(number, batch) for number, batch in changed if batch.num_rows]


def _refused(events: Mapping[str, CutEvents]) -> list[Refusal]:
    return [refusal for each in events.values() for refusal in each.refused]
