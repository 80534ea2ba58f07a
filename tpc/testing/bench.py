"""The bench of one test: a sink on a fresh target, branches written as tasks write them, and what must be seen after.

A committable always goes through JSON, as it does in the log. Nothing here knows a system.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow
import pytest

from tpc.errors import ConfigurationError, TpcError, TransientError
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, InDoubt, Outcome, Sink, Verdict, Writer
from tpc.testing.branch import Branch
from tpc.testing.hooks import SinkHooks, is_reason
from tpc.testing.readers import PAUSE_S, Rows, counted, difference, expected_rows, settled, some, told
from tpc.testing.requirements import Clause, no_error, raised, refuse, require

PARTITIONS = 4
"""What `check` is told about the branches of an epoch."""

NOTHING: Mapping[str, int] = {}


class Bench:
    """What a test does to the sink under test, and what it then requires."""

    def __init__(self, kit: SinkHooks, tmp_path: Path, sink: Sink | None = None) -> None:
        self.kit = kit
        self.tmp_path = tmp_path
        self.pipeline = PipelineId(kit.pipeline_name)
        self.schema = kit.schema
        self.sink = sink or kit.make_sink(tmp_path)
        self._committers: dict[tuple[str, PipelineId], Committer] = {}
        self._fresh: list[Committer] = []
        self.settling = Settling(kit.settle_s)
        self._numbers = itertools.count(1)
        self._attempts = itertools.count(1)
        self.committer = self.committer_of(self.sink)

    # Committers -----------------------------------------------------------------------------------------------

    def other_sink(self, name: str) -> Sink:
        """A sink of another name on the same target."""
        return self.kit.make_sink(self.tmp_path, name)

    def context(self, pipeline: PipelineId | None = None) -> CheckContext:
        """What `check` is given."""
        return CheckContext(pipeline or self.pipeline, self.schema, PARTITIONS)

    def takes(self, sink: Sink) -> bool:
        """Whether `check` takes a sink: it may refuse the target by a `ConfigurationError`."""
        committer = sink.committer(self.pipeline)
        try:
            committer.check(self.context())
        except ConfigurationError:
            return False
        finally:
            committer.close()
        return True

    def committer_of(self, sink: Sink | None = None, pipeline: PipelineId | None = None) -> Committer:
        """The checked committer of a sink and pipeline; the same one every time."""
        sink, pipeline = sink or self.sink, pipeline or self.pipeline
        key = (sink.name, pipeline)
        if key not in self._committers:
            committer = sink.committer(pipeline)
            with no_error("`check` on a fresh target", Clause.CHECK, "make `check` create what the sink needs."):
                committer.check(self.context(pipeline))
            self._committers[key] = committer
        return self._committers[key]

    def fresh_committer(self) -> Committer:
        """Another committer of the same pipeline, which has seen nothing yet."""
        self._fresh.append(self.sink.committer(self.pipeline))
        return self._fresh[-1]

    # Branches -------------------------------------------------------------------------------------------------

    def handle(
        self,
        epoch: int,
        partition: int = 0,
        *,
        generation: int = 1,
        pipeline: PipelineId | None = None,
        sink: Sink | None = None,
    ) -> Handle:
        """A handle that no other branch has."""
        partition = DRIVER_PARTITION if self.kit.keyed else partition
        name = (sink or self.sink).name
        return Handle(pipeline or self.pipeline, generation, name, epoch, partition, next(self._attempts))

    def rows(self, count: int) -> Rows:
        """New rows, different from all before."""
        return [self.kit.row(number) for number in itertools.islice(self._numbers, count)]

    def batch(self, rows: Rows) -> pyarrow.RecordBatch:
        """Rows as a task gets them."""
        return pyarrow.RecordBatch.from_pylist(rows, schema=self.schema)

    def hint(self, committer: Committer | None = None) -> JSONObject:
        """What the driver gives the writers of the next epoch, as it travels."""
        with no_error("`hint`", Clause.DEADLINE, "answer with small JSON while the system answers."):
            hint: JSONObject = json.loads(json.dumps((committer or self.committer).hint()))
        return hint

    def writer(self, handle: Handle, sink: Sink | None = None, expected: Sequence[type[Exception]] = ()) -> Writer:
        """A writer with the hint of this epoch. Its errors fail the test, except those `expected`."""
        sink = sink or self.sink
        hint = self.hint(self.committer_of(sink, handle.pipeline))
        return ExplainedWriter(sink.writer(handle, self.schema, hint), *expected)

    def prepare(
        self,
        epoch: int = 0,
        partition: int = 0,
        *,
        rows: Rows | None = None,
        generation: int = 1,
        pipeline: PipelineId | None = None,
        sink: Sink | None = None,
    ) -> Branch:
        """A prepared branch; with three new rows, in two batches, unless rows are given."""
        rows = self.rows(3) if rows is None else rows
        handle = self.handle(epoch, partition, generation=generation, pipeline=pipeline, sink=sink)
        return self.prepared_by(self.writer(handle, sink), rows)

    def prepared_by(self, writer: Writer, rows: Rows) -> Branch:
        """The branch of a writer that gets these rows in two batches."""
        for part in (rows[:1], rows[1:]):
            writer.write(self.batch(part))
        return self.branch(writer.prepare(), rows)

    def branch(self, committable: Committable | None, rows: Rows) -> Branch:
        """The outcome of a branch with these rows, its committable as another process would read it."""
        if committable is None:
            refuse(
                "`prepare` returned None for a branch with rows.",
                Clause.DURABLE,
                "return a committable whenever `write` got a row.",
            )
        return Branch(Committable.from_json(json.loads(json.dumps(committable.to_json()))), rows)

    def committed(self, epoch: int = 0, partition: int = 0, *, rows: Rows | None = None, **where: Any) -> Branch:
        """A branch that is prepared and committed."""
        branch = self.prepare(epoch, partition, rows=rows, **where)
        self.commit(branch, committer=self.committer_of(where.get("sink"), where.get("pipeline")))
        return branch

    # Second phase ---------------------------------------------------------------------------------------------

    def outcomes(self, *branches: Branch, committer: Committer | None = None) -> list[Outcome]:
        """What `commit` answers, one outcome for each branch."""
        to_do = "return Outcome(Verdict.UNKNOWN, what the system said) for whatever could not be learned."
        with no_error("`commit`", Clause.DEADLINE, to_do):
            outcomes = (committer or self.committer).commit([branch.committable for branch in branches])
        require(
            isinstance(outcomes, list)
            and len(outcomes) == len(branches)
            and all(isinstance(outcome, Outcome) for outcome in outcomes),
            f"`commit` was given {len(branches)} committables and returned {outcomes!r}.",
            Clause.ORDER,
            "return a list with exactly one Outcome for each committable.",
        )
        return outcomes

    def commit(self, *branches: Branch, committer: Committer | None = None) -> list[Outcome]:
        """Commit branches that must go through."""
        outcomes = self.settling.patiently(lambda: self.outcomes(*branches, committer=committer), one_unknown)
        require(
            all(outcome.settled for outcome in outcomes),
            f"Prepared branches were committed, and the answers are {told(outcomes)}.",
            Clause.DURABLE,
            "commit with nothing but the committable and the sink's settings; answer COMMITTED, or ALREADY when the "
            "branch's marker shows it.",
        )
        return outcomes

    def abort(self, *branches: Branch | InDoubt, committer: Committer | None = None) -> None:
        """Abort branches; it must not raise."""
        given = [b.committable if isinstance(b, Branch) else b for b in branches]
        with no_error("`abort`", Clause.ABORT, "pass over what is not there, and keep deadlines above the system's."):
            self.settling.patiently(lambda: (committer or self.committer).abort(given))

    def in_doubt(self, committer: Committer | None = None) -> list[InDoubt]:
        """What recovery finds."""
        with no_error("`in_doubt`", Clause.LISTING, "list without raising while the system answers."):
            return self.settling.patiently((committer or self.committer).in_doubt)

    def listed(self, committer: Committer | None = None) -> set[str]:
        """The resources that recovery finds."""
        return {doubt.resource for doubt in self.in_doubt(committer)}

    def sweep(self, committer: Committer | None = None) -> None:
        """Abort all that recovery finds."""
        if found := self.in_doubt(committer):
            self.abort(*found, committer=committer)

    def clean_up(self) -> None:
        """Leave no prepared branch of this test in a system that others use."""
        for committer in self._committers.values():
            with suppress(TpcError, OSError):
                committer.abort(committer.in_doubt() or [])  # a half-written sink may return nothing
        for committer in (*self._committers.values(), *self._fresh):
            with suppress(TpcError, OSError):
                committer.close()

    # What is seen ---------------------------------------------------------------------------------------------

    def require_visible(
        self, *branches: Branch, after: str, clause: Clause, to_do: str, and_also: Mapping[str, int] = NOTHING
    ) -> None:
        """Readers see the rows of these branches, committed in this order, and (counted) those of others."""
        rows = [branch.rows for branch in branches]
        expected = counted(expected_rows(rows, self.kit.keyed, self.kit.merged)) + Counter(and_also)
        with no_error(f"Reading the target after {after}", clause, to_do):
            seen = settled(lambda: counted(self.kit.visible_rows(self.sink)), expected, self.kit.settle_s)
        require(seen == expected, f"After {after} readers see {difference(expected, seen)}.", clause, to_do)

    def require_nothing_left(self, *, after: str, clause: Clause, to_do: str) -> None:
        """The system holds nothing that is prepared or open."""
        nothing: list[Any] = []
        left = settled(lambda: list(self.kit.leftovers(self.sink)), nothing, self.kit.settle_s)
        require(not left, f"After {after} the system still holds {some(left)}.", clause, to_do)

    # What may be missing --------------------------------------------------------------------------------------

    @contextmanager
    def outage(self) -> Iterator[None]:
        """The hook; the test is skipped with the reason when it is declared impossible."""
        self.needs("outage", "cannot_cut")
        with self.kit.outage(self.sink):
            yield
        self.settling.begin()

    def needs(self, hook: str, reason_in: str) -> None:
        """Skip the test with the declared reason unless the hook is there; fail when neither is."""
        if self.kit.provides(hook):
            return
        reason = str(getattr(self.kit, reason_in))
        require(
            is_reason(reason),
            f"The kit has neither `{hook}` nor a reason why not.",
            Clause.HOOKS,
            f"write `{hook}`, or set the class attribute `{reason_in}` to a sentence that says why it cannot be.",
        )
        pytest.skip(f"{reason_in}: {reason}")


# After an outage: what a system that comes back does not answer in time is asked again, as a coordinator does.

Result = TypeVar("Result")


class Settling:
    """How long a system that was away may take to answer as it did before: `settle_s` of the kit, 0 for most."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._ends_at = 0.0

    def begin(self) -> None:
        """The outage is over."""
        self._ends_at = time.monotonic() + self._settle_s

    def patiently(self, call: Callable[[], Result], unknown: Callable[[Result], bool] = lambda _: False) -> Result:
        """The answer of a call; made again after a `TransientError`, or an `unknown` answer, while the system settles.

        Outside of that time the first answer or error is the one that counts.
        """
        while True:
            try:
                answer = call()
            except TransientError:
                if time.monotonic() >= self._ends_at:
                    raise
            else:
                if not unknown(answer) or time.monotonic() >= self._ends_at:
                    return answer
            time.sleep(PAUSE_S)


def one_unknown(outcomes: Sequence[Outcome]) -> bool:
    """Whether a commit must be asked for again."""
    return any(outcome.verdict is Verdict.UNKNOWN for outcome in outcomes)


# A writer whose errors are explained: what the kit did not ask for fails the test in the contract's words.

GOOD_ROWS = "make `write` and `prepare` take rows of the kit's schema."
IN_WORDS = (
    "raise DataError for a row that can never be taken and TransientError for what may pass, with the system's words "
    "as text; let no error of a driver or of Python through."
)


class ExplainedWriter(Writer):
    """Hands every call on. Errors of the kinds in `expected` get through; any other fails the test."""

    def __init__(self, writer: Writer, *expected: type[Exception]) -> None:
        self.writer = writer
        self.expected = expected

    def write(self, batch: pyarrow.RecordBatch) -> None:
        with self._explained("write"):
            self.writer.write(batch)

    def prepare(self) -> Committable | None:
        with self._explained("prepare"):
            return self.writer.prepare()

    def abort(self) -> None:
        with self._explained("abort"):
            self.writer.abort()

    @contextmanager
    def _explained(self, call: str) -> Iterator[None]:
        __tracebackhide__ = True
        try:
            yield
        except self.expected:
            raise
        except TpcError as error:
            refuse(
                f"`{call}` of a writer raised {raised(error)}.",
                Clause.PROMISE if call != "abort" else Clause.ABORT,
                GOOD_ROWS if call != "abort" else "let `Writer.abort` succeed when there is nothing to undo.",
            )
        except Exception as error:  # noqa: BLE001  whatever it is, it is not the contract's
            refuse(f"`{call}` of a writer raised {raised(error)}.", Clause.DEADLINE, IN_WORDS)
