"""A validator, where the sink has one: it agrees with the writer, row by row, and leaves nothing in the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow
import pytest

from tpc.errors import DataError
from tpc.sink import Validator
from tpc.testing.bench import Bench
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import Rows
from tpc.testing.requirements import Clause, no_error, refuse, require

AS_THE_WRITER = (
    "let `validate` and `write` call the same conversion, and `validate` keep nothing of it: a good row that is "
    "refused becomes a dead letter, and is missing in the target."
)
BY_ITSELF = "judge each row by itself: forget what was validated before, also when it was refused."


class ValidatorTests(KitTests):
    """Rows that are only looked at."""

    def test_a_validator_takes_what_the_writer_takes_and_leaves_nothing(self, bench: Bench) -> None:
        rows = [*bench.rows(3), *({**row, **dict.fromkeys(self.nullable_columns)} for row in bench.rows(2))]
        with validating(bench) as validator:
            for some in (rows, [], rows[:1], rows[3:], rows):
                require_taken(validator, bench.batch(some))
            require_taken(validator, bench.batch(rows).slice(1, 3))
        after = "rows that were only validated"
        bench.require_visible(after=after, clause=Clause.VALIDATED, to_do=AS_THE_WRITER)
        require(not bench.in_doubt(), f"After {after} a branch is in doubt.", Clause.VALIDATED, AS_THE_WRITER)
        bench.require_nothing_left(after=after, clause=Clause.VALIDATED, to_do=AS_THE_WRITER)

    def test_a_row_that_a_validator_has_refused_changes_nothing_for_others(self, bench: Bench) -> None:
        bench.needs("bad_batch", "takes_every_row")
        with validating(bench) as validator:
            for _ in range(2):
                refuses(validator, self.bad_batch())
                require_taken(validator, bench.batch(bench.rows(2)), BY_ITSELF)
        bench.require_nothing_left(after="a refusal of a validator", clause=Clause.VALIDATED, to_do=AS_THE_WRITER)


@contextmanager
def validating(bench: Bench) -> Iterator[Validator]:
    """A validator of the bench's sink. The test is skipped where it has none."""
    validator = bench.sink.validator(bench.handle(0), bench.schema, bench.hint())
    if validator is None:
        pytest.skip("the sink has no validator: what its writers refuse is never a dead letter")
    try:
        yield validator
    finally:
        with no_error("`close` of a validator", Clause.VALIDATED, "let go of what is open, whatever has happened."):
            validator.close()


def refuses(validator: Validator, batch: pyarrow.RecordBatch) -> bool:
    """Whether the validator refuses a row of the batch, by a `DataError`."""
    try:
        validator.validate(batch)
    except DataError:
        return True
    except Exception as error:  # noqa: BLE001  whatever it is, it is not the contract's
        refuse(f"`validate` raised {type(error).__name__}: {error}.", Clause.VALIDATED, "raise DataError.")
    return False


def require_taken(validator: Validator, batch: pyarrow.RecordBatch, to_do: str = AS_THE_WRITER) -> None:
    """The validator refuses none of these rows, which a writer takes."""
    if refuses(validator, batch):
        refuse("A validator refuses rows that a writer takes.", Clause.VALIDATED, to_do)


def refuses_alone(bench: Bench, rows: Rows) -> bool:
    """Whether the sink's validator refuses these rows; False where it has none."""
    validator = bench.sink.validator(bench.handle(0), bench.schema, bench.hint())
    if validator is None:
        return False
    try:
        return refuses(validator, bench.batch(rows))
    finally:
        validator.close()


def require_agreement(bench: Bench, *, refused: bool) -> None:
    """A writer has taken these rows: whether a validator has refused them."""
    kinds = ", ".join(f"{field.name!r} {field.type}" for field in bench.schema)
    require(
        not refused, f"A validator refuses rows that a writer has taken, of {kinds}.", Clause.VALIDATED, AS_THE_WRITER
    )
