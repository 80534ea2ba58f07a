"""Functions that would do nothing, sources that nothing takes, and an `out` of another epoch or thread: refused."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.program import Numbers
from tpc.errors import ConfigurationError
from tpc.sources import IterableSource, KafkaSource, LinesSource


async def a_coroutine(*_: Any) -> None:
    pass


def a_generator(*_: Any) -> Iterator[None]:
    yield


async def an_async_generator(*_: Any) -> AsyncIterator[None]:
    yield


class Called:
    async def __call__(self, *_: Any) -> None:
        pass

    async def method(self, *_: Any) -> None:
        pass


class Generates:
    def __call__(self, *_: Any) -> Iterator[None]:
        yield


DEFERRED: dict[str, Callable[..., Any]] = {
    "async def": a_coroutine,
    "generator": a_generator,
    "async generator": an_async_generator,
    "object": Called(),
    "object that generates": Generates(),
    "method": Called().method,
    "partial": partial(a_coroutine, 1),
    "partial of an object": partial(partial(Called(), 1), 2),
    "async lambda": lambda *_: a_coroutine(),
}
SHOWS = {name: function for name, function in DEFERRED.items() if name != "async lambda"}


def undecorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Looks like a plain function from outside, as a decorator of somebody's makes it."""

    @wraps(function)
    def plain(*arguments: Any) -> Any:
        return function(*arguments)

    del plain.__wrapped__
    return plain


def service_of(directory: Path, values: Any = (1, 2, 3)) -> tuple[tpc.Service, Any]:
    service = tpc.service("numbers", directory=directory / "service")
    numbers = service.read(IterableSource(values, name="numbers"))
    service.write("rows", {"n": int}).to(Numbers(directory).sink("even"))
    return service, numbers


def declare(service: tpc.Service, numbers: Any, how: str, function: Callable[..., Any]) -> None:
    declared = {"each": service.each(numbers), "each_batch": service.each_batch(numbers), "at_cut": service.at_cut}
    declared[how](function)


@pytest.mark.parametrize("how", ["each", "each_batch", "at_cut"])
@pytest.mark.parametrize("what", SHOWS)
def test_a_function_whose_call_runs_nothing_is_refused_where_it_is_declared(
    what: str, how: str, tmp_path: Path
) -> None:
    service, numbers = service_of(tmp_path)
    with pytest.raises(ConfigurationError, match=r"function.*a call of it would run nothing.*plain function"):
        declare(service, numbers, how, SHOWS[what])


@pytest.mark.parametrize("how", ["each", "each_batch", "at_cut"])
@pytest.mark.parametrize("what", DEFERRED)
def test_an_answer_that_stands_for_work_not_done_is_refused_before_anything_is_decided(
    what: str, how: str, tmp_path: Path
) -> None:
    service, numbers = service_of(tmp_path)
    service.each(numbers)(lambda event, out: out.row("rows", {"n": event}))
    declare(service, numbers, how, undecorated(DEFERRED[what]))
    with pytest.raises(ConfigurationError, match="of which nothing has run yet"):
        service.run(until_end=True)
    assert Numbers(tmp_path).history() == []
    assert Numbers(tmp_path).written("even") == []


@pytest.mark.parametrize("lazy", [map(str, [1]), iter([1]), concurrent.futures.Future[int]()])
def test_an_iterator_or_a_future_is_such_an_answer_too(lazy: object, tmp_path: Path) -> None:
    service, numbers = service_of(tmp_path)
    service.each(numbers)(lambda event, out: lazy)
    with pytest.raises(ConfigurationError, match="of which nothing has run yet"):
        service.run(until_end=True)


def test_any_other_answer_is_taken_for_what_a_lambda_happens_to_return(tmp_path: Path) -> None:
    service, numbers = service_of(tmp_path)
    service.each(numbers)(lambda event, out: out.row("rows", {"n": event}) or [event])
    service.run(until_end=True)
    assert Numbers(tmp_path).written("even") == [1, 2, 3]


@pytest.mark.parametrize("what", SHOWS)
def test_decode_time_and_conditions_are_looked_at_in_the_same_way(what: str, tmp_path: Path) -> None:
    function, service = SHOWS[what], tpc.service("numbers", directory=tmp_path)
    with pytest.raises(ConfigurationError, match=r"decode= of a LinesSource .*would run nothing"):
        LinesSource(tmp_path / "lines", decode=function)
    with pytest.raises(ConfigurationError, match=r"decode= of a KafkaSource .*would run nothing"):
        KafkaSource("orders", servers="nowhere:9092", decode=function)
    with pytest.raises(ConfigurationError, match=r"time= of source 'values' .*would run nothing"):
        service.read(IterableSource([]), time=function)
    with pytest.raises(ConfigurationError, match=r"where= of the route to sink 'even'.*run nothing"):
        service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"), where=function)


@pytest.mark.parametrize("where", ["decode", "time", "where"])
def test_their_answers_too(where: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("1\n2\n")
    lazy = undecorated(a_coroutine)
    service = tpc.service("numbers", directory=tmp_path / "service")
    source = LinesSource(tmp_path / "lines", decode=lazy if where == "decode" else int)
    lines = service.read(source, time=lazy if where == "time" else None)
    service.each(lines)(lambda event, out: out.row("rows", {"n": event}))
    service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"), where=lazy if where == "where" else None)
    service.dead_letters_to(Numbers(tmp_path).sink("dead"))
    with pytest.raises(ConfigurationError, match=rf"{where}=.*(of which nothing has run yet|neither yes nor no)"):
        service.run(until_end=True)
    assert Numbers(tmp_path).history() == []


def test_what_cannot_be_called_is_refused_where_it_is_declared(tmp_path: Path) -> None:
    service, numbers = service_of(tmp_path)
    mistaken: Any = {"n": 1}
    with pytest.raises(ConfigurationError, match="which cannot be called"):
        service.each(numbers)(mistaken)


def test_a_class_is_a_function_too(tmp_path: Path) -> None:
    service, numbers = service_of(tmp_path)

    class Made:
        def __init__(self, event: int, out: Any) -> None:
            out.row("rows", {"n": event})

        async def __call__(self) -> None:
            pass

    service.each(numbers)(Made)
    service.run(until_end=True)
    assert Numbers(tmp_path).written("even") == [1, 2, 3]


def test_a_source_that_no_function_takes_is_refused_at_the_start(tmp_path: Path) -> None:
    service, numbers = service_of(tmp_path)
    service.each(numbers)(lambda event, out: out.row("rows", {"n": event}))
    service.read(IterableSource([1, 2], name="others"))
    with pytest.raises(ConfigurationError, match="source 'others' is read and no function takes its events"):
        service.run(until_end=True)
    assert Numbers(tmp_path).history() == []


def test_each_function_of_batches_gets_all_events_whatever_another_does_to_its_list(tmp_path: Path) -> None:
    service, numbers = service_of(tmp_path)
    service.each_batch(numbers)(lambda events, out: events.clear())
    service.each(numbers)(lambda event, out: out.row("rows", {"n": event}))
    service.run(until_end=True)
    assert Numbers(tmp_path).written("even") == [1, 2, 3]


USES: dict[str, Callable[[Any], object]] = {
    "row": lambda out: out.row("rows", {"n": 7}),
    "rows": lambda out: out.rows("rows", [{"n": 7}]),
    "batch": lambda out: out.batch("rows", None),
}


@pytest.mark.parametrize("use", USES)
def test_an_out_of_an_earlier_epoch_is_refused(use: str, tmp_path: Path) -> None:
    service, numbers = service_of(tmp_path)
    kept: list[Any] = []

    @service.each(numbers)
    def keeps(event: int, out: Any) -> None:
        kept.append(out)
        USES[use](kept[0]) if event == 3 else out.row("rows", {"n": event})

    with pytest.raises(ConfigurationError, match=r"`out` of epoch 0 is used after the epoch's rows were made"):
        service.run(every=2, until_end=True)
    assert Numbers(tmp_path).written("even") == [1, 2]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("event", [1, 2, 3])
def test_an_out_in_another_thread_ends_the_service_also_where_the_thread_tells_nobody(
    event: int, use: str, tmp_path: Path
) -> None:
    service, numbers = service_of(tmp_path)

    @service.each(numbers)
    def elsewhere(number: int, out: Any) -> None:
        out.row("rows", {"n": number})
        if number == event:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(USES[use], out)  # nobody asks for its result

    with pytest.raises(ConfigurationError, match=r"`out` of epoch 0 is used by another thread"):
        service.run(until_end=True)
    assert Numbers(tmp_path).written("even") == []


def test_a_thread_that_uses_an_out_after_its_epoch_ends_the_next_one(tmp_path: Path) -> None:
    values = [1, 2, 3, 4]
    service, numbers = service_of(tmp_path, lambda: values)
    first: list[Any] = []

    @service.each(numbers)
    def taken(number: int, out: Any) -> None:
        first.append(out)
        out.row("rows", {"n": number})
        if number == 3:
            late = threading.Thread(target=lambda: _swallowed(lambda: first[0].row("rows", {"n": 7})))
            late.start()
            late.join()

    with pytest.raises(ConfigurationError, match="`out` of epoch 0 is used"):
        service.run(every=2, until_end=True)
    assert Numbers(tmp_path).written("even") == [1, 2]


def _swallowed(call: Callable[[], object]) -> None:
    with contextlib.suppress(ConfigurationError):
        call()
