"""What was written is what is read: every value, NULLs, equal rows, columns by name; what cannot be is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tpc.errors import ConfigurationError, DataError
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import prepare_and_die
from tpc.testing.requirements import Clause, require
from tpc.testing.values import TEXTS, plain, values_of

BY_NAME = "find the target's columns by their names, in the schema that the writer is given, never by their places."
APART = (
    "store NULL as NULL and text as it is; a format that cannot distinguish them has to write one of them otherwise."
)
ALL_ROWS = "keep every row: rows are not keys, and two that are equal are two."
EXACT = (
    "convert values only where nothing is lost (Arrow's `safe=True`), and raise DataError from `write` or `prepare`, "
    "or ConfigurationError from `check`, where something would be."
)

REFUSALS = (ConfigurationError, DataError)
ORDERED_ROWS = 3_000
ZONES = ("America/New_York", "Pacific/Kiritimati")
"""West and east of UTC, one with summer time."""


class DataTests(KitTests):
    """Rows that have been changed on their way."""

    def test_columns_are_found_by_their_names(self, bench: Bench) -> None:
        names = list(reversed(self.schema.names))
        bench.schema = pyarrow.schema([self.schema.field(name) for name in names])
        branch = bench.committed(rows=[{name: row[name] for name in names} for row in bench.rows(3)])
        bench.require_visible(
            branch, after="a commit of rows with their columns in another order", clause=Clause.DATA, to_do=BY_NAME
        )

    def test_null_and_empty_text_are_two_things(self, bench: Bench) -> None:
        columns = self.nullable(pyarrow.types.is_string)
        if not columns:
            pytest.skip("the kit's schema has no column for text that may be NULL (`nullable`)")
        rows = bench.rows(len(TEXTS) + 1)
        for row, text in zip(rows, (None, *TEXTS), strict=True):
            row.update(dict.fromkeys(columns, text))
        branch = bench.committed(rows=rows)
        bench.require_visible(branch, after="a commit of NULL and odd texts", clause=Clause.DATA, to_do=APART)

    def test_a_row_of_nulls_arrives(self, bench: Bench) -> None:
        columns = self.nullable(lambda _: True)
        if not columns:
            pytest.skip("no column of the kit's schema may be NULL (`nullable`)")
        first, second = bench.rows(2)
        branch = bench.committed(rows=[{**first, **dict.fromkeys(columns)}, second])
        bench.require_visible(branch, after="a commit of a row of NULLs", clause=Clause.DATA, to_do=APART)

    def test_equal_rows_are_all_there(self, bench: Bench) -> None:
        if self.keyed:
            pytest.skip("keyed: the coordinator leaves one row of each key")
        row, other = bench.rows(2)
        # In one batch beside each other, apart, and in the next batch; and in another branch.
        branches = [bench.prepare(0, 0, rows=[row, row, row, other, other, row]), bench.prepare(0, 1, rows=[row])]
        bench.commit(*branches)
        bench.require_visible(*branches, after="a commit of equal rows", clause=Clause.DATA, to_do=ALL_ROWS)

    def test_rows_of_a_branch_come_in_the_order_in_which_they_were_written(self, bench: Bench) -> None:
        if not self.ordered:
            pytest.skip("ordered: readers of this system see rows in no order, or in one of their own")
        branch = bench.prepare(rows=list(reversed(bench.rows(ORDERED_ROWS))))
        bench.commit(branch)
        written, seen = ([repr(plain(row)) for row in rows] for rows in (branch.rows, self.visible_rows(bench.sink)))
        place = next((place for place, pair in enumerate(zip(written, seen, strict=False)) if len({*pair}) > 1), None)
        require(
            written == seen,
            f"{len(written)} rows were written in one branch; readers see {len(seen)}, and row {place} is another.",
            Clause.ORDER_OF_ROWS,
            "keep rows in the order of `write`, over all batches of a branch.",
        )

    @pytest.mark.parametrize("zone", ZONES)
    def test_instants_are_the_same_whatever_zone_the_writer_s_machine_is_in(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
    ) -> None:
        columns = {f"at_{place}": type_ for place, type_ in enumerate(self.types) if pyarrow.types.is_timestamp(type_)}
        if not columns:
            pytest.skip(f"types: the kit has no timestamps{' and no other tables' if not self.types else ''}")
        self.schema = pyarrow.schema([self.schema.field(0), *columns.items()])
        bench = Bench(self, tmp_path)
        try:
            self.require_same_instants(bench, columns, zone, monkeypatch)
        finally:
            bench.clean_up()

    def require_same_instants(
        self, bench: Bench, columns: Mapping[str, pyarrow.DataType], zone: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A branch that a process in another zone has written reads as it would anywhere."""
        few = min(len(values_of(type_)) for type_ in columns.values())
        rows = [
            {
                self.schema.names[0]: self.row(number)[self.schema.names[0]],
                **{name: values_of(type_)[number] for name, type_ in columns.items()},
            }
            for number in range(few)
        ]
        sink, handle = self.made_portable(bench), bench.handle(0)
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("TZ", zone)
            committable = prepare_and_die(sink, handle, [bench.batch(rows)], bench.hint(), deadline_s=self.deadline_s)
        branch = bench.branch(committable, rows)
        bench.commit(branch)
        bench.require_visible(
            branch,
            after=f"a commit of what a process in the zone {zone} has written",
            clause=Clause.DATA,
            to_do="convert instants by UTC, never by the zone of the machine: a timestamp with a zone is an instant, "
            "one without is what it says.",
        )

    def test_a_branch_of_one_row_arrives(self, bench: Bench) -> None:
        branch = bench.committed(rows=bench.rows(1))
        bench.require_visible(branch, after="a commit of one row", clause=Clause.DATA, to_do=ALL_ROWS)

    def test_a_slice_of_a_batch_is_only_its_rows(self, bench: Bench) -> None:
        rows = bench.rows(5)
        writer = bench.writer(bench.handle(0))
        writer.write(bench.batch(rows).slice(1, 3))
        branch = bench.branch(writer.prepare(), rows[1:4])
        bench.commit(branch)
        bench.require_visible(
            branch,
            after="a commit of a slice",
            clause=Clause.DATA,
            to_do="read a batch by its rows or by `offset` and `length`, never its buffers from their beginning.",
        )

    def test_every_digit_of_a_number_arrives_or_is_refused(self, bench: Bench) -> None:
        arrived: list[Branch] = []
        for field in self.schema:
            for value in numbers_of_many_digits(field.type):
                if field.name != self.keyed:
                    arrived += self.same_or_refused(bench, arrived, field.name, field.type, value)
        if not arrived:
            pytest.skip("the kit's schema has no column of 64 bits, or the sink has refused each of these numbers")

    def test_a_value_that_does_not_fit_is_refused_or_arrives(self, bench: Bench) -> None:
        if self.has_no_types:
            pytest.skip(f"has_no_types: {self.has_no_types}")
        tried = [(field.name, *each) for field in self.schema for each in values_of_near_types(field.type)]
        arrived: list[Branch] = []
        for column, type_, value in tried:
            arrived += self.same_or_refused(bench, arrived, column, type_, value)
        if not tried:
            pytest.skip("the kit knows no value that would not fit into the columns of its schema")

    def same_or_refused(
        self, bench: Bench, before: Sequence[Branch], column: str, type_: pyarrow.DataType, value: Any
    ) -> list[Branch]:
        """One column has a type, which need not be that of the kit's schema, and a value that only that type has.

        The branch, if it was taken: it must be read as it was written.
        """
        places = [pyarrow.field(field.name, type_ if field.name == column else field.type) for field in self.schema]
        bench.schema = pyarrow.schema(places)
        rows = [{**bench.rows(1)[0], column: value}]
        try:
            bench.fresh_committer().check(bench.context())
            writer = bench.writer(bench.handle(len(before)), expected=REFUSALS)
        except REFUSALS:
            return []
        try:
            writer.write(bench.batch(rows))
            committable = writer.prepare()
        except REFUSALS:
            writer.abort()
            return []
        branch = bench.branch(committable, rows)
        bench.commit(branch)
        bench.require_visible(
            *before, branch, after=f"a commit of {column}={value!r} as {type_}", clause=Clause.DATA, to_do=EXACT
        )
        return [branch]

    def nullable(self, fits: Callable[[pyarrow.DataType], bool]) -> list[str]:
        """The columns that may be NULL and whose types fit."""
        return [name for name in self.nullable_columns if fits(self.schema.field(name).type)]


def numbers_of_many_digits(type_: pyarrow.DataType) -> Sequence[float]:
    """Numbers that are others once they were text of 15 digits, or a float."""
    if pyarrow.types.is_float64(type_):
        return (0.1 + 0.2, 1 / 3, 123456789.12345679, 5e-324, 1.7976931348623157e308)
    if pyarrow.types.is_int64(type_):
        return (2**53 + 1, 2**63 - 1)
    return ()


def values_of_near_types(type_: pyarrow.DataType) -> Sequence[tuple[pyarrow.DataType, Any]]:
    """Types that come near to this one, each with a value that this one does not have."""
    if pyarrow.types.is_integer(type_):
        return ((pyarrow.float64(), 1.5), (pyarrow.uint64(), 2**64 - 1), (pyarrow.string(), "1x"))
    if pyarrow.types.is_floating(type_):
        return ((pyarrow.decimal128(38, 20), Decimal("0.1") + Decimal(1).scaleb(-20)),)
    if pyarrow.types.is_string(type_):
        return ((pyarrow.binary(), b"\xff\xfe"),)
    return ()
