"""What an author of a source tells the kit, and what the kit's tests do with it: read, cut, read again, compare."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar

import pytest

from tpc.errors import StateLostError, TransientError
from tpc.source import Part, Source, SourceReader
from tpc.testing.requirements import SourceClause as Clause
from tpc.testing.requirements import raised, refuse, require
from tpc.testing.source_process import polled

NUMBERS = range(100, 124)
"""The events of most tests: so many that every one of a few partitions has some."""
LATER = range(200, 212)
"""Those that come later."""
MANY = range(1_000, 3_500)
"""More than a client brings in one answer."""
SLACK_S = 2.0
"""So much longer than it may wait a call may take on a busy machine."""

SEEK = "let `seek` go to exactly the point that `position` named, with nothing polled."


class SourceHooks:
    """The hooks, and helpers over them; `SourceConformance` adds the tests."""

    timeout_s: ClassVar[float] = 10.0
    """So long events may take from `feed` to a poll, and any call that has to answer, in seconds."""
    secrets: ClassVar[Sequence[str]] = ()
    """Strings of the source's settings that must never be seen, a password say."""
    has_no_secrets: ClassVar[str] = ""
    """A reason, if no setting of the source is secret."""
    cannot_lose: ClassVar[str] = ""
    """A reason, if `lose` cannot be provided."""
    cannot_recreate: ClassVar[str] = ""
    """A reason, if `recreate` cannot be provided."""
    cannot_cut: ClassVar[str] = ""
    """A reason, if `outage` cannot be provided."""
    has_one_writer: ClassVar[str] = ""
    """A reason, if `begin` cannot be provided: events come into sight in the order of their positions, always."""

    has_no_decode: ClassVar[str] = ""
    """A reason, if `spoil` cannot be provided: the source makes an event of whatever the system holds."""

    # To be written ---------------------------------------------------------------------------------------------

    def make_source(self) -> Source:
        """The source of the running test; the same each time it is called in one test.

        Its first start begins with what is there, not with what comes later.
        """
        raise NotImplementedError("write make_source(self): the source that the running test reads")

    def feed(self, numbers: Sequence[int]) -> None:
        """Put one event for each number into the system, after those that are there.

        A test may feed the same numbers twice. Of several partitions let each get some.
        """
        raise NotImplementedError("write feed(self, numbers): one event for each number, after those that are there")

    def number(self, event: Any) -> int:
        """The number of an event. Events have to be picklable: another process hands them back."""
        return int(event)

    # To be written, or declared impossible ----------------------------------------------------------------------

    def lose(self) -> None:
        """Make the system forget all events that it has, and not that they were there, as retention does."""
        raise NotImplementedError

    def recreate(self) -> None:
        """Take away what is read, and create another one of the same name without events."""
        raise NotImplementedError

    def outage(self) -> AbstractContextManager[object]:
        """A context in which the system cannot be reached; after it all is there again."""
        raise NotImplementedError

    def begin(self, numbers: Sequence[int]) -> Callable[[], None]:
        """Write events as `feed` does, in a transaction that is left open; what is returned commits it."""
        raise NotImplementedError

    def spoil(self) -> None:
        """Put one event into the system, after those that are there, that the source's `decode` refuses."""
        raise NotImplementedError

    # Helpers ---------------------------------------------------------------------------------------------------

    def _needs(self, hook: str, attribute: str) -> None:
        """Skip the running test if the kit has no such hook, and says in `attribute` why not."""
        if getattr(type(self), hook) is not getattr(SourceHooks, hook):
            return
        reason, to_do = getattr(self, attribute), f"write {hook}, or say why not in `{attribute}`."
        require(len(reason.split()) >= 3, f"The kit has no {hook}, and no reason for that.", Clause.HOOKS, to_do)
        pytest.skip(reason)

    @contextmanager
    def _reader(self, source: Source | None = None, position: str | None = None) -> Iterator[Any]:
        """A reader that stands at a position; each of its calls has a deadline."""
        reader = OneThread((source or self.make_source()).reader(), self.timeout_s + SLACK_S)
        try:
            reader.seek(position)
            yield reader
        finally:
            reader.end()

    def _poll(self, reader: Any, rows: int, step: int | None = None) -> int:
        """Poll until at least `rows` have come, for `step` at a time or for what is still due; how many came."""
        came = polled(reader, rows, self.timeout_s, step)
        if came < rows:
            to_do = "hand out every event once, none dropped; raise the kit's `timeout_s` if the system is slow."
            refuse(
                f"{rows} events were to come within {self.timeout_s:g} s, and {came} came: others are late or skipped.",
                Clause.POLL,
                to_do,
            )
        return came

    def _await(self, count: int) -> None:
        """Return once so many events can be read, in a system in which that takes a while."""
        with self._reader() as reader:
            self._poll(reader, count)

    def _cuts(self, reader: Any, size: int) -> list[tuple[str, list[Part], str]]:
        """All of `NUMBERS`, in cuts of at most `size` events: each with the positions before and after it."""
        cuts, left = [], len(NUMBERS)
        while left > 0:
            before = reader.position()
            left -= self._poll(reader, min(size, left))
            cuts.append((before, reader.cut(), reader.position()))
        return cuts

    def _all_of(self, reader: Any) -> list[int]:
        """What a reader finds until it is exhausted; it need not be told how much that is."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            came = reader.poll(1_000, 0.2)
            if (not came and reader.is_exhausted()) or time.monotonic() > deadline:
                return self._numbers(reader.cut())

    def _half(self, reader: Any) -> tuple[str, list[int]]:
        """Cut some of `NUMBERS`: the position after them, and the numbers that are left."""
        self._poll(reader, 10)
        rest = Counter(NUMBERS) - Counter(self._numbers(reader.cut()))
        return reader.position(), sorted(rest.elements())

    def _until_exhausted(self, reader: Any) -> None:
        deadline = time.monotonic() + self.timeout_s
        while not reader.is_exhausted():
            to_do = "answer True once a poll finds no more."
            require(time.monotonic() < deadline, "is_exhausted() stays False.", Clause.EXHAUSTED, to_do)
            reader.poll(10, 0.2)

    def _numbers(self, parts: Sequence[Part]) -> list[int]:
        return [number for part in parts for number in self._numbers_or_none(part) if number is not None]

    def _numbers_or_none(self, part: Part) -> list[int | None]:
        """None for an event that is refused."""
        to_do = "name in `refused` every event that was not decoded, by its index in this part, and no other."
        unnamed = [index for index, event in enumerate(part.events) if event is None and index not in part.refused]
        beyond = [index for index in part.refused if index not in range(len(part.events))]
        told = f"Part {part.name!r} of {len(part.events)} events has None at {unnamed}, and `refused` names {beyond}."
        require(not unnamed and not beyond, told, Clause.REFUSED, to_do)
        return [None if index in part.refused else self.number(event) for index, event in enumerate(part.events)]

    def _numbers_of(self, source: Source) -> Counter[int]:
        with self._reader(source) as reader:
            self._poll(reader, len(NUMBERS))
            return Counter(self._numbers(reader.cut()))

    def _require_all(
        self, numbers: Sequence[int], expected: Sequence[int], doing: str, clause: Clause, to_do: str
    ) -> None:
        missing, extra = Counter(expected) - Counter(numbers), Counter(numbers) - Counter(expected)
        told = f"{doing} these are missing: {_some(missing)}; these came too often: {_some(extra)}."
        require(not missing and not extra, told, clause, to_do)

    def _read_again(self, start: str, end: str) -> tuple[list[Part], str]:
        with self._reader(position=start) as reader:
            return reader.read_to(end, self.timeout_s), reader.position()

    def _require_again(self, start: str, parts: Sequence[Part], end: str) -> None:
        try:
            again, stands = self._read_again(start, end)
        except Exception as error:  # noqa: BLE001  whatever it is, the cut cannot be read again
            to_do = "take every position that was told, as long as the events after it are there."
            refuse(f"Reading from {start!r} to {end!r} again raised {raised(error)}.", Clause.AGAIN, to_do)
        self._require_same(start, parts, end, again)
        to_do = "stand at `end` after `read_to`; the next poll begins there."
        require(stands == end, f"After read_to({end!r}) the position is {stands!r}.", Clause.AGAIN, to_do)

    def _require_same(self, start: str, parts: Sequence[Part], end: str, again: Sequence[Part]) -> None:
        to_do = "order a cut by partitions and by places, so that two positions alone say what it has."
        before, now = self._shape(parts), self._shape(again)
        told = f"The cut from {start!r} to {end!r} had {before}, and is read again as {now}."
        require(before == now, told, Clause.AGAIN, to_do)

    def _shape(self, parts: Sequence[Part]) -> list[tuple[str, list[int | None], list[str], bool]]:
        """What must be the same of a cut that is read again."""
        return [
            (
                part.name,
                self._numbers_or_none(part),
                origins([part]),
                part.again is not None,
            )
            for part in parts
        ]

    def _require_refused(self, position: str, known: Mapping[str, str], which: str, clause: Clause, to_do: str) -> None:
        """By `StateLostError`, or by identities that differ from those `known`: a start compares them."""
        try:
            with self._reader(position=position) as reader:
                now = reader.identities()
                if any(known[name] != now[name] for name in known.keys() & now.keys()):
                    return
                read = reader.poll(5, self.timeout_s)
        except StateLostError:
            return
        except Exception as error:  # noqa: BLE001  whatever it is, it is not what a lost position has to raise
            refuse(f"seek({position!r}), {which}, raised {raised(error)}.", clause, to_do)
        told = f"seek({position!r}), {which}, raised nothing, {read} events came, and identities() differ in nothing."
        refuse(told, clause, to_do)

    def _polled_in_outage(self, reader: Any) -> int:
        """How many events a poll has brought: a client may hold some that it had fetched before."""
        try:
            came: int = reader.poll(10, 0.5)
        except Exception as error:  # noqa: BLE001  whatever it is, it may not be what an outage has to raise
            self._require_transient(error, "poll")
            return 0
        return came

    def _require_transient(self, error: Exception, what: str) -> None:
        to_do = "raise `TransientError` where the system does not answer in time."
        is_right = isinstance(error, TransientError)
        require(is_right, f"In an outage {what} raised {raised(error)}.", Clause.DEADLINE, to_do)
        shown = [secret for secret in self.secrets if secret in str(error)]
        require(not shown, f"An error of {what} shows a secret of the source.", Clause.SECRETS, "leave it out.")


class OneThread:
    """A reader whose calls are all made in one thread, each within a time. One that has not returned is refused.

    Such a reader is not closed: a client is not safe from `close` while a call goes on in it.
    """

    def __init__(self, reader: SourceReader, limit_s: float) -> None:
        self._reader = reader
        self._limit_s = limit_s
        self._calls = queue.SimpleQueue[_Call | None]()
        self._is_hung = False
        threading.Thread(target=_serve, args=(self._calls,), name="tpc-reader", daemon=True).start()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._reader, name)
        return partial(self._call, name, found) if callable(found) else found

    def poll_up_to(self, size_bytes: int, rows: int, timeout_s: float) -> int:
        """A poll with this `poll_bytes`."""
        self._reader.poll_bytes = size_bytes
        came: int = self.poll(rows, timeout_s)
        return came

    def end(self) -> None:
        """Close it, and end the thread."""
        if not self._is_hung:
            self._call("close", self._reader.close)
        self._calls.put(None)

    def _call(self, name: str, method: Callable[..., Any], *arguments: Any) -> Any:
        waits_s = sum(each for each in arguments if type(each) is float)  # of `poll` and `read_to`
        limit_s = self._limit_s + waits_s
        answers = queue.SimpleQueue[tuple[Any, Exception | None]]()
        self._calls.put((partial(method, *arguments), answers))
        try:
            answer, error = answers.get(timeout=limit_s)
        except queue.Empty:
            self._is_hung = True
            refuse(f"{name} has not ended after {limit_s:g} s.", Clause.DEADLINE, "pass the time on to the client.")
        if error is not None:
            raise error
        return answer


_Call = tuple[Callable[[], Any], "queue.SimpleQueue[tuple[Any, Exception | None]]"]


def _serve(calls: queue.SimpleQueue[_Call | None]) -> None:
    """Make the calls of one reader, one after the other; an error is raised in the test's thread."""
    while (call := calls.get()) is not None:
        method, answers = call
        try:
            answers.put((method(), None))
        except Exception as error:  # noqa: BLE001  raised again where the answer is waited for
            answers.put((None, error))


def origins(parts: Sequence[Part]) -> list[str]:
    """The position of each event, of the parts that have one."""
    return [part.origin(index).position for part in parts if part.origin for index in range(len(part.events))]


def twice(told: Sequence[str]) -> str:
    """What is there more than once."""
    return ", ".join(one for one, times in Counter(told).items() if times > 1)


def _some(numbers: Counter[int]) -> str:
    shown = sorted(numbers.elements())
    return ", ".join(map(str, shown[:8])) + (" ..." if len(shown) > 8 else "") if shown else "none"
