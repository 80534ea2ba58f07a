"""A writer whose errors are explained: what the kit did not ask for fails the test in the contract's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow

from tpc.errors import TpcError
from tpc.sink import Committable, Writer
from tpc.testing.requirements import Clause, raised, refuse

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
