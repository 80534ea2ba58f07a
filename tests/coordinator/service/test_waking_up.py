"""A process that stood still while another one went on learns that it is fenced, whatever its epoch meets first.

Its states are those of an epoch that is long past: what it reads in a store, and what its functions make of that,
need not fit together any more. None of this is told before it is known who leads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.program import Numbers
from tests.core.builders import generation_body
from tpc import failpoints
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED, exit_code_for
from tpc.records import RecordKind
from tpc.source import Source
from tpc.sources import IterableSource

DEADLINE_S = 60.0
STANDS_AT = 3
"""The epoch in which it stands still."""


class Counted(Numbers):
    """Each number is kept in a state for so long that the next one finds it, and is missed if it does not."""

    def __init__(self, directory: Path, numbers: int, kind: Any) -> None:
        super().__init__(directory, numbers)
        self.kind = kind

    def service(self) -> tpc.Service:
        service = tpc.service("numbers", directory=self.directory / "service")
        numbers = service.read(self.source(), time=lambda number: number * 1_000)
        state: Any = service.state("seen", self.kind, ttl=tpc.seconds(4))

        @service.each(numbers)
        def taken(number: int, out: Any) -> None:
            if number and number - 1 not in state:
                raise LookupError(f"{number - 1} has not come")
            state[number] = True
            out.row("rows", {"n": number, "text": str(len(state))})

        service.write("rows", {"n": int, "text": str}).to(self.sink("even"))
        return service


class StandsStill:
    """One process reaches a step and waits there until it is woken up."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.stands, self.wakes = threading.Event(), threading.Event()

    def __call__(self, _step: str, where: Mapping[str, Any]) -> None:
        if where.get("epoch") == STANDS_AT and not self.stands.is_set():
            self.stands.set()
            assert self.wakes.wait(DEADLINE_S)

    def end_of(self, run: Callable[[], object], meanwhile: Callable[[], object]) -> BaseException | None:
        """What ends `run`, which stands still until `meanwhile` is done."""
        ended: list[BaseException] = []

        def first() -> None:
            try:
                run()
            except Exception as error:  # noqa: BLE001  the test says which it must be
                ended.append(error)

        thread = threading.Thread(target=first, daemon=True)
        failpoints.install({self.step: self})
        try:
            thread.start()
            assert self.stands.wait(DEADLINE_S)
            meanwhile()
        finally:
            self.wakes.set()
            thread.join(DEADLINE_S)
            failpoints.install({})
        assert not thread.is_alive()
        return ended[0] if ended else None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [dict, "disk"], ids=["in memory", "on disk"])
@pytest.mark.parametrize("step", ["epoch.planned", "pass.open", "epoch.collected", "epoch.prepared"])
def test_a_process_whose_states_another_one_has_gone_on_with_ends_as_fenced(
    step: str, kind: Any, tmp_path: Path
) -> None:
    counted = Counted(tmp_path, 80, kind)
    error = StandsStill(step).end_of(lambda: counted.run(every=10), lambda: counted.run(every=10, takeover=True))
    assert error is not None
    assert exit_code_for(error) == EXIT_FENCED, f"{type(error).__name__}: {error}"
    assert counted.written("even") == counted.values


class EndsEarly(Numbers):
    """Its source fails behind the epoch in which the process stands still."""

    def source(self) -> Source:
        def numbers() -> Iterator[int]:
            yield from self.values[: 10 * (STANDS_AT + 1)]
            raise ConnectionError("the broker has closed the connection")

        return IterableSource(numbers, name="numbers")

    def somebody_elsewhere_takes_over(self) -> None:
        """On another machine, whose lock this one does not see."""
        journal = Journal(self.service().log)
        history = journal.open()
        body = generation_body(
            history.next_generation,
            **{
                **history.carried([], keep_epochs=100),
                "pipeline": "numbers",
                "last_complete": history.last_complete,
            },
        )
        journal.append(RecordKind.GENERATION, body)


def test_a_source_that_fails_between_epochs_does_not_hide_that_another_process_leads(tmp_path: Path) -> None:
    ends_early = EndsEarly(tmp_path, 80)
    stands = StandsStill("epoch.completed")
    error = stands.end_of(lambda: ends_early.run(every=10), ends_early.somebody_elsewhere_takes_over)
    assert exit_code_for(error) == EXIT_FENCED, f"{type(error).__name__}: {error}"
    assert "the broker has closed" in str(error.__cause__ if error else "")
