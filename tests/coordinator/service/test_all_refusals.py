"""`tpc check` tells every refusal that it can find, the one that a start raises first; a start stops at that one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.program import Numbers
from tpc.__main__ import app
from tpc.coordinator.kernel.all_refusals import Refusals, _Survey
from tpc.coordinator.operations import actions
from tpc.errors import HistoryMismatchError, TpcError
from tpc.sinks import FileSink, PostgresSink
from tpc.sources import IterableSource


class Job:
    """Numbers to sinks, all of them to each; what of it is changed between two starts is given."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.values = list(range(30))

    def service(self, *names: str, name: str = "job", kind: type = int, more: tuple[PostgresSink, ...] = ()) -> Any:
        service = tpc.service(name, directory=self.directory / "service")
        numbers = service.read(IterableSource(lambda: self.values, name="numbers"))

        @service.each(numbers)
        def taken(number: int, out: Any) -> None:
            out.row("rows", {"n": kind(number)})

        rows = service.write("rows", {"n": kind})
        for each in names or ("a", "b"):
            rows.to(FileSink(self.directory / each, name=each))
        for sink in more:
            rows.to(sink)
        return service

    def run(self) -> None:
        self.service().run(every=10, until_end=True)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    job.run()
    return job


def refusals(make: Callable[[], tpc.Service]) -> list[TpcError]:
    """All of them; the same in a second check, and the first one is what a start raises."""
    found, again = actions.refusals(make()), actions.refusals(make())
    assert [error.what for error in found] == [error.what for error in again]
    with pytest.raises(TpcError) as started:
        make().run(until_end=True)
    assert (started.value.what, type(started.value)) == (found[0].what, type(found[0]))
    assert all(error.safe and error.remedy for error in found)
    return found


def away(name: str) -> PostgresSink:
    return PostgresSink("t", dsn="host=127.0.0.1 port=1 user=u password=hidden dbname=d", name=name, timeout_s=1)


def told(found: list[TpcError]) -> list[tuple[str, str | None]]:
    return [(type(error).__name__, error.sink) for error in found]


def test_a_job_that_may_start_has_none(job: Job) -> None:
    assert actions.refusals(job.service()) == []


def test_each_missing_target_is_told_and_none_is_made(job: Job) -> None:
    for name in ("a", "b"):
        (job.directory / name).rename(job.directory / f"not mounted {name}")
    assert told(refusals(job.service)) == [("ConfigurationError", "a"), ("ConfigurationError", "b")]
    assert not (job.directory / "a").exists()
    assert not (job.directory / "b").exists()


def test_targets_columns_sinks_and_sources_are_told_side_by_side(job: Job) -> None:
    (job.directory / "b").rename(job.directory / "not mounted")
    job.values = job.values[:5]
    found = refusals(lambda: job.service(kind=str, more=(away("c"), away("d"))))
    assert told(found) == [
        ("ConfigurationError", "b"),
        ("SchemaChangedError", "a"),
        ("SchemaChangedError", "b"),
        ("ConfigurationError", "c"),
        ("ConfigurationError", "d"),
        ("StateLostError", None),
    ]
    assert not any("hidden" in str(error) for error in found)


def test_of_a_sink_that_does_not_answer_nothing_is_said_that_was_not_asked(job: Job) -> None:
    """What another sink reports is compared with the log all the same."""
    for manifest in (job.directory / "a").rglob("*.json"):
        manifest.unlink()
    found = refusals(lambda: job.service(more=(away("c"),)))
    assert ("ConfigurationError", "c") in told(found)
    assert any(error.sink == "a" for error in found)
    assert not any(error.sink == "b" for error in found)


def test_every_sink_that_is_left_out_is_named(job: Job) -> None:
    found = refusals(lambda: job.service("other"))
    assert [(error.sink, "not part of the pipeline any more" in error.what) for error in found] == [
        ("a", True),
        ("b", True),
    ]


def test_without_the_log_no_sink_is_asked(job: Job) -> None:
    """The log is another's: it does not say which targets must be there."""
    found = refusals(lambda: job.service("fresh", name="another"))
    assert [error.what.partition(" belongs to")[2] for error in found] == [" pipeline job#1, not to another#1"]
    assert not (job.directory / "fresh").exists()


@pytest.fixture
def loaded(job: Job, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """The service can be loaded as `checked_service:service`."""
    module: Any = ModuleType("checked_service")
    module.service = job.service
    monkeypatch.setitem(__import__("sys").modules, "checked_service", module)
    yield job


def test_the_command_says_ok_or_numbers_the_refusals(loaded: Job) -> None:
    words = ["check", "checked_service:service"]
    good = CliRunner().invoke(app, words)
    assert (good.exit_code, good.output.split(":")[0]) == (0, "OK")
    for name in ("a", "b"):
        (loaded.directory / name).rename(loaded.directory / f"not mounted {name}")
    bad = CliRunner().invoke(app, words)
    assert bad.exit_code == 1
    heading, *lines = bad.output.splitlines()
    assert heading == "tpc: a start would be refused for 2 reasons, and stops at the first:"
    assert [line[:3] for line in lines] == ["1. ", "2. "]
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert [refusal["sink"] for refusal in told["refusals"]] == ["a", "b"]
    assert told["refusal"] == told["refusals"][0]


def test_numbers_of_the_other_tests_may_start(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 30)
    assert actions.refusals(numbers.service()) == []
    numbers.run()
    assert actions.refusals(numbers.service()) == []


class Logs:
    """A log that goes on between two looks, `slots` being what each look finds."""

    def __init__(self, *slots: int) -> None:
        self.slots = list(slots)
        self.participants = None

    def read(self) -> Any:
        return SimpleNamespace(next_slot=self.slots.pop(0))


class Compared(_Survey):
    """A sink that agrees with the log of `agrees_from` slots."""

    def __init__(self, log: Logs, agrees_from: int) -> None:
        super().__init__(log, Refusals())  # type: ignore[arg-type]  # it is asked for the log alone
        self.agrees_from = agrees_from

    def _ask_sink(self, history: Any, name: str, identities: Any) -> None:
        if history.next_slot < self.agrees_from:
            raise HistoryMismatchError("the sink reports a later epoch")


def test_a_sink_that_is_ahead_of_a_log_which_goes_on_meanwhile_is_compared_again() -> None:
    Compared(Logs(5, 7), agrees_from=7)._ask_sink_at_rest(SimpleNamespace(next_slot=3), "a", {})  # type: ignore[arg-type]


def test_a_sink_that_is_ahead_of_a_log_at_rest_is_refused() -> None:
    with pytest.raises(HistoryMismatchError):
        Compared(Logs(5, 5), agrees_from=7)._ask_sink_at_rest(SimpleNamespace(next_slot=3), "a", {})  # type: ignore[arg-type]
