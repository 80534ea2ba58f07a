"""Tables of any columns: what the sink says it takes arrives value by value, or is refused by a named error in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from tpc.errors import ConfigurationError, DataError
from tpc.handles import PipelineId
from tpc.sink import CheckContext
from tpc.testing.bench import PARTITIONS, Bench
from tpc.testing.branch import Branch
from tpc.testing.data import EXACT, REFUSALS
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import Rows
from tpc.testing.requirements import Clause, no_error, require
from tpc.testing.validators import refuses_alone, require_agreement
from tpc.testing.values import values_of

COLUMNS_MAX, ROWS_MAX = 5, 6
COLUMN = "v"
NAMES = some.one_of(
    some.sampled_from(("value", "order", "Äpfel", "漢字", "a b", "a.b", 'say "a"', "it's", "CamelCase", "_", "1st")),
    some.text(some.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=20),
)


class TypeTests(KitTests):
    """Asked for only of sinks whose kit can make targets of other columns (`types`)."""

    def test_every_value_of_every_type_arrives_or_is_refused(self, tmp_path: Path) -> None:
        self.needs_types()
        for number, type_ in enumerate(self.types):
            values = values_of(type_)
            with self.typed_target(tmp_path / f"type-{number}", self.with_key({COLUMN: type_})) as bench:
                taken = self.arrived(bench, [self.with_number(row, {COLUMN: each}) for row, each in enumerate(values)])
                for each in [] if taken else values:
                    taken += self.arrived(bench, [self.with_number(taken, {COLUMN: each})])
            require(
                taken > 1,
                f"Of {len(values)} values of {type_}, which the kit lists in `types`, the sink takes {taken}.",
                Clause.HOOKS,
                "take out of `types` what the sink does not take.",
            )

    def test_rows_of_any_columns_arrive_or_are_refused(self, tmp_path: Path) -> None:
        self.needs_types()
        places = iter(range(10**6))

        # Nothing is shrunk: every try costs a target, and the failure shows its few rows.
        @settings(
            max_examples=self.schemas,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(self.made_up())
        def hold(table: tuple[pyarrow.Schema, Rows]) -> None:
            schema, rows = table
            with self.typed_target(tmp_path / f"table-{next(places)}", schema) as bench:
                self.arrived(bench, rows)

        hold()

    def needs_types(self) -> None:
        """Skip with the reason when targets of other columns cannot be made."""
        if not self.types:
            require(
                bool(self.fixed_columns.strip()),
                "The kit has neither `types` nor a reason why not.",
                Clause.HOOKS,
                "set `types` to those that the sink takes (tpc.testing.values.SPARK_TYPES), and let `make_sink` make a "
                "target for `self.schema`; or set `fixed_columns` to a sentence that says why it cannot be.",
            )
            pytest.skip(f"fixed_columns: {self.fixed_columns}")

    def made_up(self) -> some.SearchStrategy[tuple[pyarrow.Schema, Rows]]:
        """Columns of any names, types and order, and rows of odd values."""

        def filled(columns: dict[str, pyarrow.DataType], order: Any) -> some.SearchStrategy[Any]:
            schema = self.with_key(columns)
            names = order.sample(schema.names, len(schema.names))
            schema = pyarrow.schema([schema.field(name) for name in names])
            values = some.fixed_dictionaries({name: some.sampled_from(values_of(t)) for name, t in columns.items()})
            numbered = some.lists(values, max_size=ROWS_MAX).map(
                lambda rows: [self.with_number(number, row) for number, row in enumerate(rows)]
            )
            return some.tuples(some.just(schema), numbered)

        columns = some.dictionaries(NAMES, some.sampled_from(list(self.types)), min_size=1, max_size=COLUMNS_MAX)
        orders = some.randoms(use_true_random=False)
        return some.tuples(columns.filter(self.tells_apart), orders).flatmap(lambda drawn: filled(*drawn))

    def tells_apart(self, columns: dict[str, pyarrow.DataType]) -> bool:
        """Whether the names differ in more than capitals, also from the key column's."""
        return len({name.casefold() for name in (*columns, self.key_column)}) == 1 + len(columns)

    @property
    def key_column(self) -> str:
        """The first column of the kit's schema, which every table has: it tells the rows apart."""
        return str(type(self).schema.names[0])

    def with_key(self, columns: dict[str, pyarrow.DataType]) -> pyarrow.Schema:
        """These columns and the key column."""
        return pyarrow.schema([type(self).schema.field(self.key_column), *columns.items()])

    def with_number(self, number: int, row: dict[str, Any]) -> dict[str, Any]:
        """A row with a key of its own."""
        return {**row, self.key_column: self.row(number)[self.key_column]}

    @contextmanager
    def typed_target(self, place: Path, schema: pyarrow.Schema) -> Iterator[Bench | None]:
        """A bench on a fresh target with these columns; None when the sink refuses them by name."""
        place.mkdir()
        self.taken: list[Branch] = []
        self.schema = schema
        self.pipeline_name = f"{self.pipeline_name.partition('.')[0]}.{place.name}"
        with no_error(f"Making a target of {schema.names}", Clause.HOOKS, "let `make_sink` obey `self.schema`."):
            sink = self.make_sink(place)
        committer = sink.committer(PipelineId(self.pipeline_name))
        try:
            committer.check(CheckContext(PipelineId(self.pipeline_name), schema, PARTITIONS))
        except ConfigurationError:
            yield None
            return
        finally:
            committer.close()
        bench = Bench(self, place)
        try:
            yield bench
        finally:
            bench.clean_up()

    def arrived(self, bench: Bench | None, rows: Rows) -> int:
        """How many rows were taken: all or none. What was taken must be read as it was written."""
        if bench is None:
            return 0
        refused = refuses_alone(bench, rows)
        writer = bench.writer(bench.handle(len(self.taken)), expected=REFUSALS)
        try:
            for part in (rows[:2], [], rows[2:]):
                writer.write(bench.batch(part))
            committable = writer.prepare()
        except DataError:
            writer.abort()
            return 0
        if not rows:
            require(committable is None, "`prepare` returned a committable for no rows.", Clause.EMPTY, EXACT)
            return 0
        require_agreement(bench, refused=refused)
        branch = bench.branch(committable, rows)
        bench.commit(branch)
        kinds = ", ".join(f"{field.name!r} {field.type}" for field in bench.schema)
        self.taken.append(branch)
        bench.require_visible(*self.taken, after=f"a commit into {kinds}", clause=Clause.DATA, to_do=EXACT)
        return len(rows)
