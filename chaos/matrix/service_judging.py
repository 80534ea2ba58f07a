"""What must hold of a service beyond the other checks: the content of its states, computed here from the rows alone.

The cuts are the log's. Of event time it is taken from the log how far an epoch had come when it began, and checked that
this is as far as every partition had been read by then, and no further than any.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from tpc.chaos.checkers.changelog_content import read_changelog
from tpc.chaos.checkers.compare import Check, multisets_equal, nothing_left, tallies_equal
from tpc.chaos.checkers.effects_content import calls_right, read_calls, staged_effects, waiting_effects
from tpc.chaos.checkers.seen import tallies_grow
from tpc.chaos.checkers.service_state import StoreContent, held_rows, read_store
from tpc.chaos.checkers.watch_rows import StateTalliesReader
from tpc.chaos.matrix.case import EPOCH
from tpc.chaos.matrix.judging import Judge, Readers
from tpc.chaos.matrix.pipeline import PARTITIONS, PipelineUnderTest, Row
from tpc.chaos.matrix.service_pipeline import (
    DUE_AFTER_S,
    LEDGER,
    OF_FIRINGS,
    RECENT,
    STATES,
    TOTALS,
    TTL_S,
    Ledger,
    ServicePipeline,
    firing_key,
    is_called_for,
    visit_of,
)
from tpc.coordinator.service.epoch_input import time_of, watermark_of

if TYPE_CHECKING:
    from tpc.history import History


@dataclass
class ExpectedStates:
    """What the states must hold after some epochs, and how many keys have expired on the way."""

    totals: dict[Hashable, tuple[int, int, int]] = field(default_factory=dict)
    recent: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    """The newest number, and the event time in ms at which it expires."""
    ledger: Ledger = field(default_factory=Ledger)
    expired: int = 0

    def begin(self, came_to_ms: int | None) -> None:
        """An epoch begins when event time has come to there: what has expired by then is gone."""
        if came_to_ms is None:
            return
        gone = [key for key, (_, expires_ms) in self.recent.items() if expires_ms <= came_to_ms]
        for key in gone:
            del self.recent[key]
        self.expired += len(gone)

    def tell(self, row: Row) -> None:
        """The next row of its key is told of."""
        n, amount, known = self.totals.get(row.key, (0, 0, 0))
        self.totals[row.key] = (n + 1, amount + row.amount, known + len(self.recent))
        self.ledger.take(row.id)

    def see(self, row: Row) -> None:
        """It has come."""
        for key in (row.key, visit_of(row.key, row.id)):
            ends_ms = max(self.recent.get(key, (0, 0))[1], row.id * 1000 + round(TTL_S * 1000))
            self.recent[key] = row.seq, ends_ms


class ServiceReaders(Readers):
    """A reader of the state's totals beside those of the sinks."""

    def __init__(self, pipeline: PipelineUnderTest) -> None:
        super().__init__(pipeline)
        assert isinstance(pipeline, ServicePipeline)
        self.totals = StateTalliesReader(pipeline.store(TOTALS), pipeline.name)
        self.followed["totals"] = self.totals


class ServiceJudge(Judge):
    """The checks on a service: an epoch is one branch, and the states are part of it."""

    pipeline: ServicePipeline
    readers: ServiceReaders

    def _branches(self, history: History) -> dict[tuple[int, int], list[int]]:
        return {(epoch, 0): ids for epoch, ids in self._came(history).items()}

    def _came(self, history: History) -> dict[int, list[int]]:
        """The ids of the rows that each epoch has read, in the order of its partitions."""
        read = sorted(self.read(history).items())
        return {epoch: [i for _, ids in parts for i in ids] for epoch, parts in groupby(read, lambda part: part[0][0])}

    def _also_at(self) -> Mapping[str, int | None]:
        """Nobody beside the log and the participants keeps a place."""
        return {}

    def _also_left(self) -> Mapping[str, Sequence[str]]:
        outbox = self.pipeline.outbox
        return {
            **{f"deltas of the state {name}": self._store(name).prepared for name in STATES},
            "staged effects": staged_effects(outbox, self.pipeline.name),
            "effects that wait": waiting_effects(outbox),
        }

    def _store(self, state: str) -> StoreContent:
        return read_store(self.pipeline.store(state), self.pipeline.name)

    def _more(self) -> list[Check]:
        history, stores = self._history(), {name: self._store(name) for name in STATES}
        expected = self._expected(history)
        kept = {key: tuple(value) for key, value in stores[TOTALS].values.items()}
        undoable = {name: store.undoable for name, store in stores.items()}
        last = history.last_complete
        pruned = all(set(epochs) <= {last} for epochs in undoable.values())
        return [
            tallies_equal("totals in the state", expected.totals, kept),
            tallies_equal("what has not expired in the state on disk", expected.recent, stores[RECENT].entries),
            Check(
                "the object that is kept has taken every row once, in their order",
                stores[LEDGER].whole == expected.ledger.dumps(),
                f"{stores[LEDGER].whole!r}, due: {expected.ledger}",
            ),
            *map(self._changelog, STATES),
            *calls_right(
                read_calls(self.pipeline.called), (row.id for row in self.fed if is_called_for(row.to_json()))
            ),
            Check("keys have expired while it ran", expected.expired > 0, f"{expected.expired} have expired"),
            tallies_grow("a reader of the state's totals saw them only grow", self.readers.totals.seen, kept),
            Check(
                "event time goes no further than what was read", not (ahead := self._ahead(history)), "", tuple(ahead)
            ),
            Check(
                "event time goes as far as every partition was read",
                not (behind := self._behind(history)),
                "",
                tuple(behind),
            ),
            Check("only the last epoch can be taken back", pruned, f"{undoable}, complete: {last}"),
        ]

    def _changelog(self, state: str) -> Check:
        held = held_rows(self.pipeline.store(state))
        said = read_changelog(self.pipeline.addresses.servers, self.pipeline.changelog(state).topic)
        return multisets_equal(f"the changelog of {state} says what its store holds", held, said)

    def _expected(self, history: History) -> ExpectedStates:
        expected = ExpectedStates()
        for came_to_ms, rows in self._epochs(history):
            expected.begin(came_to_ms)
            for row in rows:
                expected.tell(row)
                expected.see(row)
        return expected

    def _epochs(self, history: History) -> Iterator[tuple[int | None, list[Row]]]:
        """How far event time had come when each epoch began, and its rows in their order: by partition."""
        by_id = {row.id: row for row in self.fed}
        for epoch, ids in sorted(self._came(history).items()):
            yield watermark_of(history.manifests[epoch]), [by_id[i] for i in ids]

    def _ahead(self, history: History) -> list[str]:
        """Epochs that began later in event time than anything that had been read."""
        lines, read_to_ms = [], -1
        for came_to_ms, rows in self._epochs(history):
            if came_to_ms is not None and came_to_ms > read_to_ms:
                lines.append(f"{came_to_ms} ms, read to {read_to_ms} ms")
            read_to_ms = max([read_to_ms, *(row.id * 1000 for row in rows)])
        return lines

    def _behind(self, history: History) -> list[str]:
        """Epochs that began earlier in event time than each partition had come."""
        lines, read_to_ms = [], dict.fromkeys(range(PARTITIONS), -1)
        for came_to_ms, rows in self._epochs(history):
            if (least_ms := min(read_to_ms.values())) > (-1 if came_to_ms is None else came_to_ms):
                lines.append(f"{came_to_ms} ms, every partition read to {least_ms} ms")
            for row in rows:
                read_to_ms[row.source] = max(read_to_ms[row.source], row.id * 1000)
        return lines


class FiringJudge(ServiceJudge):
    """The checks on a service whose rows are told of when a timer fires: when that must be follows from the log."""

    def _branches(self, history: History) -> dict[tuple[int, int], list[int]]:
        return {(epoch, 0): ids for epoch, ids in self._fired(history).items() if ids}

    def _fired(self, history: History) -> dict[int, list[int]]:
        """The ids of the rows whose timers fire in each epoch: those that are due by the time that it has read."""
        came, pending, fired = self._came(history), list[tuple[int, str, int]](), dict[int, list[int]]()
        for epoch, manifest in sorted(history.manifests.items()):
            now_ms = time_of(manifest).now_ms
            assert now_ms is not None
            fired[epoch] = [row_id for due_ms, _, row_id in sorted(pending) if due_ms <= now_ms]
            pending = [timer for timer in pending if timer[0] > now_ms]
            due_ms = now_ms + round(DUE_AFTER_S * 1000)
            pending += [(due_ms, firing_key(row_id), row_id) for row_id in came.get(epoch, [])]
        return fired

    def _expected(self, history: History) -> ExpectedStates:
        by_id, came, fired = {row.id: row for row in self.fed}, self._came(history), self._fired(history)
        expected = ExpectedStates()
        for epoch, manifest in sorted(history.manifests.items()):
            time = time_of(manifest)
            # What fires in an epoch without events comes after its last event: at the watermark to which it comes.
            expected.begin(time.watermark_ms if epoch in came else time.reached_ms)
            for row_id in fired[epoch]:
                expected.tell(by_id[row_id])
            for row_id in came.get(epoch, []):
                expected.see(by_id[row_id])
        return expected

    def _more(self) -> list[Check]:
        history = self._history()
        came, fired = self._came(history), self._fired(history)
        alone = [epoch for epoch, ids in fired.items() if ids and not came.get(epoch)]
        left = {name: [f"{key!r}" for key, _, _ in held_rows(self.pipeline.store(name))] for name in OF_FIRINGS}
        return [
            *super()._more(),
            Check(
                "the epoch of the fault was made of firings alone", EPOCH in alone, f"epochs {alone} of {sorted(fired)}"
            ),
            Check(
                "the first epoch has left no event to that of the fault",
                len(came[0]) == self.pipeline.rows_per_epoch,
                f"it has read {len(came[0])} of {self.pipeline.rows_per_epoch} rows",
            ),
            nothing_left("no row waits, and no timer", left),
        ]
