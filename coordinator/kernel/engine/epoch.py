"""One epoch as a runtime calls it: the runtime runs the pass over the rows, the machine decides what its end means.

    with engine.epoch(number, epoch_pass) as epoch:
        if epoch.replay is None:
            manifest = epoch_pass.write(number, epoch.generation)
            epoch.decide(manifest, epoch_pass.report)     # the last look, then the intent: it is decided
        else:
            replayed = epoch_pass.replay(epoch.replay)    # only what is lost of it is written again
            epoch.replayed(replayed, epoch_pass.report)
        epoch.finish()                                    # the commits, then the complete record

`decide` and `finish` are apart: between them the epoch is decided, and none of it is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.coordinator.kernel.engine.effects import located
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.effects import ReplayEpoch, WriteEpoch
from tpc.errors import ConfigurationError, DataError, StateMachineError, TransientError
from tpc.events import Event, Failed, Prepared, Replayed
from tpc.manifest import Manifest
from tpc.states import Phase

if TYPE_CHECKING:
    from tpc.coordinator.kernel.engine.engine import Engine

_NOTHING_TOLD = PassReport()
_IN_PASS = frozenset({Phase.WRITING, Phase.REPLAYING})
_DECIDED = frozenset({Phase.FINISHING, Phase.COMPLETING})


class Epoch:
    """One epoch, from the pass over its rows to its complete record. Made by `Engine.epoch`."""

    def __init__(self, engine: Engine, wanted: WriteEpoch | ReplayEpoch) -> None:
        self.number = wanted.epoch
        self.generation = wanted.generation
        self.replay = wanted if isinstance(wanted, ReplayEpoch) else None
        """How the epoch is run again, where it is decided: no sink is written but for branches that are lost."""
        self._engine = engine
        self._report = _NOTHING_TOLD
        self._is_finished = False

    def decide(self, manifest: Manifest, report: PassReport = _NOTHING_TOLD) -> None:
        """Look once more at what the pass has prepared, then put the intent: from here on the epoch is decided.

        Raises what has stopped it. The epoch is aborted before that, unless a put of the intent was attempted.
        """
        self._end_pass(Prepared(manifest), report)

    def replayed(self, replayed: Replayed, report: PassReport = _NOTHING_TOLD) -> None:
        """Compare what a decided epoch has made now with what was decided, and record what replaces lost branches.

        Raises `DeterminismError` where the rows of a stateful query, or of a lost branch, are not those decided.
        """
        self._end_pass(replayed, report)

    def finish(self, *, is_kept_up: bool = False) -> None:
        """Commit what is not committed yet, record that the epoch is complete, and sweep if it is time to.

        With `is_kept_up` the caller calls `Engine.upkeep` between epochs: only losers' branches are swept here.

        Returns when the epoch is complete, however long a system is away, or raises what stopped it: an operator's
        turn, a successor, a stop. The next start goes on from there.
        """
        if self._engine.state.phase in _IN_PASS:
            raise StateMachineError(f"epoch {self.number} was to be finished, and is not decided")
        self._engine.drive()
        self._is_finished = True
        if self._report.repeated_tasks or not is_kept_up:
            self._engine.tidy_up(after_repeated_tasks=self._report.repeated_tasks)

    def require_finished(self) -> None:
        """Raise `StateMachineError` for a runtime that has left the epoch in its middle."""
        if not self._is_finished:
            raise StateMachineError(f"epoch {self.number} was left before it was finished")

    def fail(self, error: Exception) -> None:
        """Tell the machine that `error` has left the body; raises what that ends the coordinator with.

        Returns where the machine has stopped already, or where the epoch is complete.
        """
        engine = self._engine
        engine.executor.watch.end()
        if engine.state.phase in _IN_PASS:
            told = located(error, engine.state)
            failed = Failed(told if self.replay is None else _in_replay(told))
            engine.drive(engine.executor.seen_fenced(error) or failed)
        elif not self._is_finished and engine.state.phase in _DECIDED:
            engine.drop_waiting()
            engine.drive(engine.executor.failed(located(error, engine.state), engine.state))

    def _end_pass(self, event: Event, report: PassReport) -> None:
        if self._engine.state.phase not in _IN_PASS:  # what waits to be committed must not be touched by the mistake
            raise StateMachineError(f"the pass of epoch {self.number} was to be ended twice")
        executor = self._engine.executor
        executor.watch.end()
        executor.puts.sink_seconds = report.sink_seconds
        self._report = report
        self._engine.drive(executor.seen_fenced() or event, pause_in=_DECIDED)


def _in_replay(error: Exception) -> Exception:
    """What an error of the pass advises for an undecided epoch is not true of a decided one that is run again."""
    if isinstance(error, (ConfigurationError, DataError, TransientError)):
        error.remedy = "remove the cause and restart: the replay is repeated and writes what is lost of the epoch."
    return error
