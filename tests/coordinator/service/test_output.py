from __future__ import annotations

import gc
from weakref import ref

import pyarrow as pa

from tpc.coordinator.service import output
from tpc.coordinator.service.computing import run_functions
from tpc.coordinator.service.cut_events import CutEvents
from tpc.coordinator.service.functions import Function, Input
from tpc.coordinator.service.output import Output
from tpc.coordinator.service.routes import ServiceWriting
from tpc.source import Part
from tpc.sources import IterableSource

EVENTS = 50_000
ODD = ServiceWriting("odd", {"n": int})
EVEN = ServiceWriting("even", {"n": int})


class Row(dict[str, int]):
    """One that can be looked for."""


def rows_of(out: Output, number: int) -> list[int]:
    return [n for kind, batch in out.batches() if kind == number for n in batch.column("n").to_pylist()]


def made(count: int = EVENTS) -> Output:
    """What a function has made of so many numbers, each as a row of its kind."""
    source, out = Input(IterableSource([], name="numbers"), None), Output([ODD, EVEN], epoch=0)

    events = CutEvents("numbers", [Part("", range(count), is_ended=True)])

    def routed(number: int, out: Output) -> None:
        out.row("odd" if number % 2 else "even", {"n": number})

    run_functions([Function(routed, (source,))], [source], {"numbers": events}, [], out)
    return out


def test_many_rows_become_several_batches_each_kind_in_its_order() -> None:
    out = made()
    assert rows_of(out, 0) == list(range(1, EVENTS, 2))
    assert rows_of(out, 1) == list(range(0, EVENTS, 2))
    sizes = [batch.num_rows for number, batch in out.batches() if number == 0]
    assert len(sizes) == 2
    assert sizes[0] >= output.AT_ONCE


def test_few_rows_are_one_batch() -> None:
    assert [batch.num_rows for _, batch in made(1_000).batches()] == [500, 500]


def test_rows_that_have_become_columns_are_let_go_while_the_function_runs() -> None:
    out = Output([ODD], epoch=0)
    rows = [Row(n=n) for n in range(output.AT_ONCE)]
    first = ref(rows[0])
    out.rows("odd", rows)
    del rows
    out.settle()
    gc.collect()
    assert first() is None


def test_a_large_batch_goes_on_in_pieces_that_the_processor_s_cache_holds() -> None:
    out = Output([ODD], epoch=0)
    numbers = list(range(2 * output.AT_ONCE + 1))
    out.batch("odd", pa.RecordBatch.from_pydict({"n": numbers}))
    assert [batch.num_rows for _, batch in out.batches()] == [output.AT_ONCE, output.AT_ONCE, 1]
    assert rows_of(out, 0) == numbers


def test_a_batch_stands_between_the_rows_before_it_and_those_after() -> None:
    out = Output([ODD], epoch=0)
    out.row("odd", {"n": 1})
    out.batch("odd", pa.record_batch({"n": pa.array([3, 5])}))
    out.rows("odd", [{"n": n} for n in range(7, 7 + output.AT_ONCE)])
    out.settle()
    out.row("odd", {"n": 0})
    assert rows_of(out, 0) == [1, 3, 5, *range(7, 7 + output.AT_ONCE), 0]
