"""What the user says of a service: its sources, functions, states, and where its rows go. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tpc.coordinator.kernel.checkpoint import Checkpoint, LocalCheckpoint
from tpc.coordinator.kernel.checkpoint_places import log_beside
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.service.cut_events import EventTime
from tpc.coordinator.service.dead_letters import KIND, DeadLetters
from tpc.coordinator.service.epoch_trigger import Seconds
from tpc.coordinator.service.firing import Timed
from tpc.coordinator.service.functions import Function, Input, KeyedState, input_of
from tpc.coordinator.service.peer_shards import STATES_FOLDER, PeerShards
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.sink_rows import changes_of, columns_of
from tpc.coordinator.service.state.lost_stores import LoggedState, require_store, require_there
from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.service.topic_partitions import TopicPartitions
from tpc.coordinator.service.windows import Calls, Shape, Windows, plan_of
from tpc.describing import described
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.parameter_types import kinds_checked
from tpc.schemas import Columns
from tpc.shards import Shard, not_a_shard_s
from tpc.sink import Sink
from tpc.source import Source
from tpc.source_records import InputRecord, Inputs, SourceRecord
from tpc.user_code import require_plain
from tpc.watermark import AHEAD_MAX_S

if TYPE_CHECKING:
    from tpc.changelog import Changelog
    from tpc.coordinator.service.routes import Schema, Select
    from tpc.coordinator.service.state.due import By
    from tpc.coordinator.service.state.state import State
    from tpc.coordinator.service.state.timer import Timer
    from tpc.history import History
    from tpc.transactional import Transactional
    from tpc.windows import Window

AHEAD_MAX = Seconds(AHEAD_MAX_S)
NOT_LATE = Seconds(0)
KeptT = TypeVar("KeptT")
Call = TypeVar("Call", bound=Callable[..., Any])


class Description(Job):
    """A service unstarted, without what runs it. `shard`: which part of its sources this process reads."""

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        shard: Shard | None,
        incarnation: int,
        log: Log | None,
        unrouted: str,
        settings: EngineSettings,
    ) -> None:
        called = not_a_shard_s(name) if shard is None else shard.name(name)
        super().__init__(called, incarnation, unrouted, settings)
        self._name = name
        self._shard = shard
        self._place = directory
        self._directory = directory if shard is None else directory / self.id.name
        self._log = log or log_beside(self.checkpoint)
        self._inputs: list[Input] = []
        self._retired: set[str] = set()
        self._functions: list[Function] = []
        self._states = DeclaredStates()
        self._writings: list[ServiceWriting] = []
        self._dead_letters: DeadLetters | None = None

    @kinds_checked
    def read(
        self,
        source: Source,
        *,
        time: EventTime | None = None,
        idle_after: Seconds | None = None,
        ahead_max: Seconds = AHEAD_MAX,
    ) -> Input:
        """Read from `source`; any number of them, one cut.

        `time` gives the time of an event in ms since 1970, an `int`. A source that has had no event for `idle_after`
        and holds none does not hold the watermark back; without it, it does. An event whose time is more than
        `ahead_max` after the clock of this machine does not move the watermark.
        """
        if any(each.name == source.name for each in self._inputs):
            raise ConfigurationError(
                f"two sources have the name {source.name!r}",
                pipeline=str(self.id),
                remedy="give one of them another name (name=...); a name is what its position is found by.",
            )
        part = source if self._shard is None else source.sharded(self._shard)
        self._inputs.append(input_of(part, time, idle_after, ahead_max))
        return self._inputs[-1]

    @kinds_checked
    def retire(self, source: str) -> None:
        """Read no more from the source of this name, which earlier runs have read: nothing that comes in it is taken.

        The first epoch after it records where it stood. Read again under its name, it goes on there.
        """
        self._retired.add(source)

    def each(self, *inputs: Input, timers: Sequence[Timer | State | Windows] = ()) -> Callable[[Call], Call]:
        """Decorates `function(event, out)`, called for every event of `inputs`.

        `timers`, states with `on_expiry`, and windows fire among its events. Those that no function names are of all
        that name none.
        """
        return self._function(inputs, timers, is_batch=False)

    def each_batch(self, *inputs: Input, timers: Sequence[Timer | State | Windows] = ()) -> Callable[[Call], Call]:
        """Decorates `function(events, out)`, called with all events of an epoch, once for each of `inputs`.

        `timers` fire before these events and after them.
        """
        return self._function(inputs, timers, is_batch=True)

    def at_cut(self, function: Call) -> Call:
        """Decorates `function(out)`, called once in each epoch with events or firings, after what stands before it."""
        require_plain(function, "a function of the cut")
        self._functions.append(Function(function))
        return function

    def _function(
        self, inputs: tuple[Input, ...], timers: Sequence[Timer | State | Windows], *, is_batch: bool
    ) -> Callable[[Call], Call]:
        if not inputs or not all(each in self._inputs for each in inputs):
            raise ConfigurationError("a function needs inputs", remedy="pass what service.read(...) has returned.")
        given = list(timers) if isinstance(timers, (list, tuple)) else [None]  # a state is a mapping, and goes through
        named = [one.timer if isinstance(one, Windows) else one for one in given]
        for one in named:
            if not any(one is each for each in self._states.timed):
                raise ConfigurationError(
                    f"a function has timers={described(timers, 80)}, which is no list of those of this service",
                    remedy="pass a list of what service.timer(...), service.windows(...) or "
                    "service.state(..., on_expiry=...) has returned.",
                )

        def taken(function: Call) -> Call:
            require_plain(function, "a function of batches" if is_batch else "a function of events")
            self._functions.append(Function(function, inputs, is_batch, tuple(named)))
            return function

        return taken

    @kinds_checked
    def write(self, name: str, schema: Schema) -> ServiceWriting:
        """Begin the routes of the rows that functions make with `out.row(name, {...})`.

        `schema` says their columns: a mapping from names to Python's int, float, str, bytes, bool, datetime (an
        instant) and date, or to types of pyarrow. A value that its column does not hold exactly is refused. Raises
        `ConfigurationError` for a type that no column can have.
        """
        if any(writing.name == name for writing in self._writings) or name == KIND:
            raise ConfigurationError(f"rows {name!r} are written twice", remedy="add to() to the first write().")
        self._writings.append(ServiceWriting(name, schema))
        return self._writings[-1]

    @kinds_checked
    def dead_letters_to(
        self, sink: Sink, *, select: Select | None = None, max_share: float = 0.1, at_least: int = 100
    ) -> None:
        """Write events that the program refuses to `sink`, exactly once with their epoch, instead of ending.

        An event is refused where `decode=`, `time=` or a function of events (`each`) raises an `Exception`; not by a
        `TransientError`. So is one of which a function makes a row that a sink can never take (`Sink.validator`).
        Nothing of what that function has done for the event is kept. A row names `source`,
        `position`, `function`, `error` (the exception's type), `reason` (its text), `raw_key` and `raw_value`. Where
        there are `at_least` dead letters among the last 10,000 events, and they are more than `max_share` of these,
        the service ends with a `DataError`.
        """
        if self._dead_letters is not None:
            raise ConfigurationError("dead letters go to one sink", sink=sink.name, remedy="say it once.")
        self._dead_letters = DeadLetters(sink, select, max_share=max_share, at_least=at_least)

    @kinds_checked
    def state(
        self,
        name: str,
        kind: type[dict[object, object]] | Literal["disk"] = dict,
        *,
        ttl: Seconds | None = None,
        on_expiry: Callable[..., Any] | None = None,
        changelog: Changelog | None = None,
    ) -> State:
        """What functions keep between events: a mapping of plain values, decided with each epoch like any sink.

        `dict` keeps all of it in memory, "disk" a part of it. With `ttl` a key that no event has changed for so long,
        by the time of the events, is gone; `on_expiry(key, value, at_ms, out)` is called for it when it goes, as a
        timer is that was set for `at_ms`. `changelog` (`tpc.sinks.KafkaChangelog`) takes the changes too, and gives
        the state back where its disk is lost; each shard has one of its own.
        """
        sink = StateSink(name, self._directory / STATES_FOLDER)
        state = sink.state(self.id, kind, ttl_s=ttl)
        if on_expiry is not None:
            require_plain(on_expiry, f"on_expiry of state {name!r}")
            state.on_expiry = on_expiry
            state.require_function()
            self._states.timed.append(state)
        self._states.add(sink, state, self._own(changelog))
        return state

    @kinds_checked
    def timer(
        self,
        name: str,
        kind: type[dict[object, object]] | Literal["disk"] = dict,
        *,
        by: By,
        changelog: Changelog | None = None,
    ) -> Timer:
        """A timer: for each key a time at which its function is called, decided with each epoch like a state.

        `by="event time"` it fires once the watermark has come to that time, wherever epochs are cut; `by="clock"` in
        the next epoch once the clock has, which is cut for it if no event comes. `@timer.fires` decorates its
        function(key, at_ms, out); functions of events call `set(key, at=...)`, `set(key, after=...)` and `cancel(key)`.
        `kind` and `changelog` are those of `state`.
        """
        sink = StateSink(name, self._directory / STATES_FOLDER)
        timer = sink.timer(self.id, kind, by=by)
        self._states.timed.append(timer)
        self._states.add(sink, timer, self._own(changelog))
        return timer

    @kinds_checked
    def windows(
        self,
        name: str,
        of: Shape,
        kind: type[dict[object, object]] | Literal["disk"] = dict,
        *,
        add: Callable[[Any, Any], Any],
        result: Callable[[Any, Window, Any, Any], Any],
        merge: Callable[[Any, Any], Any] | None = None,
        late: Callable[[Any, Any, Window, Any], Any] | None = None,
        lateness: Seconds = NOT_LATE,
        updates: bool = False,
        changelogs: Sequence[Changelog] = (),
    ) -> Windows:
        """Windows of event time, `tpc.windows.Tumbling`, `Hopping` or `Session`: for each key what its values make.

        Functions of events call `add(key, value, out, at=ms)`. `add(accumulator, value)` returns the new accumulator,
        from None on; `merge(earlier, later)` that of two sessions which an event joins. `result(key, window,
        accumulator, out)` is called once the watermark has come to the window's end plus `lateness`; with `updates`
        also when it ends, and for each value that comes after that. `late(key, value, window, out)` gets what comes
        later still, which is counted.

        It makes a state, `NAME-open`, and a timer, `NAME-close`, of this `kind`; `changelogs` are those of the two.
        """
        plan = plan_of(name, of, Calls(add, result, merge, late), lateness, updates=updates)
        if len(changelogs) not in (0, 2):
            raise ConfigurationError(
                f"windows {name!r} have changelogs={described(changelogs, 100)}",
                remedy=f"give two, each with a topic of its own: of {plan.state_name!r} and of {plan.timer_name!r}.",
            )
        of_state, of_timer = changelogs or (None, None)
        sink = StateSink(plan.state_name, self._directory / STATES_FOLDER)
        state = sink.windows(self.id, kind, windows=name, settings=plan.settings)
        self._states.add(sink, state, self._own(of_state))
        return Windows(plan, state, self.timer(plan.timer_name, kind, by="event time", changelog=of_timer))

    @kinds_checked
    def keep(
        self, name: str, made: Transactional[KeptT], *, changelog: Changelog | None = None
    ) -> Transactional[KeptT]:
        """An object of any class that functions change (`made.value`), whole: decided with each epoch like any sink.

        `made` is what `tpc.make_transactional(obj)` has returned. An epoch that changes it stores all of it, and sends
        all of it to `changelog`, as one message.
        """
        sink = StateSink(name, self._directory / STATES_FOLDER)
        self._states.add(sink, sink.kept(self.id, made), self._own(changelog))
        return made

    def _own(self, changelog: Changelog | None) -> Changelog | None:
        return changelog if changelog is None or self._shard is None else changelog.sharded(self._shard)

    @property
    def checkpoint(self) -> Checkpoint:
        """See `Job.checkpoint`."""
        return LocalCheckpoint(self._directory)

    @property
    def log(self) -> Log:
        """See `Job.log`."""
        return self._log

    def _routed(self) -> list[Sink]:
        return [route.sink for writing in self._all_writings() for route in writing.routes]

    @property
    def states_beside(self) -> frozenset[str]:
        """See `Job.states_beside`."""
        return frozenset(self._states.names)

    def require_states(self, history: History) -> None:
        """See `Job.require_states`."""
        for _, logged in self._states.changelogs:
            require_there(history, logged)
        for sink in self._states.without_changelog:
            require_store(history, sink)

    def columns(self) -> Mapping[str, Columns]:
        """See `Job.columns`."""
        return columns_of(self._all_writings())

    def inputs(self) -> Inputs:
        """See `Job.inputs`."""
        return tuple(_on_record(each.source) for each in self._inputs)

    def _all_writings(self) -> list[ServiceWriting]:
        letters = [] if self._dead_letters is None else [self._dead_letters.writing]
        return [*self._writings, *letters, *self._states.writings()]

    def _program(self) -> Program:
        keeps_shares = self._shard is not None and self._states.states
        return Program(
            inputs=self._inputs,
            functions=self._functions,
            states=self._states.states,
            writings=self._all_writings(),
            offsets_sink=None if self._offsets_sink is None else self._offsets_sink.name,
            unrouted_is_error=self.unrouted_is_error,
            peer_shards=self._peer_shards(),
            topic_partitions=TopicPartitions(self._directory / STATES_FOLDER) if keeps_shares else None,
            changelogs=self._states.changelogs,
            without_changelog=self._states.without_changelog,
            retired=frozenset(self._retired),
            dead_letters=self._dead_letters,
            timed=self._states.timed,
        )

    def _peer_shards(self) -> PeerShards:
        own = self._states.names
        shared = {} if self._shard is None else {sink.name: sink for sink in self.sinks if sink.name not in own}
        return PeerShards(PipelineId(self._name, self.id.incarnation), self._shard, self._place, shared)


def _on_record(source: Source) -> InputRecord:
    """A source as it goes on record: by its name."""
    return InputRecord(source.name, (), (SourceRecord(source.kind, source.place),))


# The states: each with its store, some with a changelog besides. Opens nothing.


class DeclaredStates:
    """In the order in which they were said. `timed`: those that fire; `changelogs`: those with a changelog;
    `without_changelog`: the stores of the others.
    """

    def __init__(self) -> None:
        self.states: list[KeyedState] = []
        self.timed: list[Timed] = []
        self.changelogs: list[tuple[KeyedState, LoggedState]] = []
        self.without_changelog: list[StateSink] = []
        self._stores: list[Sink] = []
        self._changelogs: list[Sink] = []

    def add(self, sink: StateSink, state: KeyedState, changelog: Changelog | None) -> None:
        """One more. Raises `ConfigurationError` for a changelog that another state has."""
        self.states.append(state)
        self._stores.append(sink)
        if changelog is None:
            self.without_changelog.append(sink)
            return
        if any(logged.changelog.target == changelog.target for _, logged in self.changelogs):
            raise ConfigurationError(
                f"{changelog.target} is the changelog of two states",
                sink=sink.name,
                remedy="give each state a topic of its own: its keys are all that compaction looks at.",
            )
        self._changelogs.append(changelog.sink(sink.name))
        self.changelogs.append((state, LoggedState(sink, changelog, self._changelogs[-1].name)))

    @property
    def names(self) -> set[str]:
        """Of the sinks."""
        return {sink.name for sink in (*self._stores, *self._changelogs)}

    def writings(self) -> list[ServiceWriting]:
        """One for each store, then one for each changelog."""
        return [changes_of(sink) for sink in (*self._stores, *self._changelogs)]
