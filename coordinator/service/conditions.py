"""The conditions of routes, `where=`: computed once per row, and only a yes or a no is an answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tpc.describing import described
from tpc.errors import ConfigurationError, DataError
from tpc.user_code import is_refusal, name_of, require_plain, said

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Flags = numpy.ndarray[Any, numpy.dtype[numpy.bool_]]

_REMEDY = "answer True, False or None (no), as bool(...) or a comparison makes it."


def checked_condition(where: Any, schema: pyarrow.Schema, sink: str) -> None:
    """Raises `ConfigurationError` for a condition that is none, as far as that can be said before there are rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from tpc.support.arrow_errors import ARROW_REFUSALS

    if isinstance(where, pc.Expression):
        try:
            kind = _evaluated(where, schema.empty_table()).type
        except (*ARROW_REFUSALS, ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(
                f"where= cannot be computed of these rows: {error}",
                sink=sink,
                remedy=f"use the columns {', '.join(schema.names)}, and functions that take their types.",
            ) from error
        if not pa.types.is_boolean(kind):
            raise ConfigurationError(
                f"where= is {kind}, and no condition", sink=sink, remedy="compare it: ... > 0, say."
            )
        return
    if not callable(where):
        what = f"where={described(where, 80)} is no condition"
        raise ConfigurationError(
            what, sink=sink, remedy="give a function of a row, or an expression of pyarrow.compute."
        )
    try:
        require_plain(where, f"where= of the route to sink {sink!r}")
    except ConfigurationError as error:
        raise error.located(sink=sink) from None


class Conditions:
    """The conditions of one batch of rows. The same object in two routes is computed once."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self._batch = batch
        self._rows: list[dict[str, Any]] | None = None
        self._computed: dict[int, Flags] = {}

    def flags(self, where: Any, sink: str) -> Flags:
        """For which rows it is true. Raises `ConfigurationError` for an answer that is neither yes nor no."""
        if id(where) not in self._computed:
            self._computed[id(where)] = self._called(where, sink) if callable(where) else self._expressed(where)
        return self._computed[id(where)]

    def _expressed(self, where: Any) -> Flags:
        import pyarrow as pa
        import pyarrow.compute as pc

        found: Flags = pc.fill_null(_evaluated(where, pa.Table.from_batches([self._batch])), False).to_numpy()
        return found

    def _called(self, where: Callable[[Mapping[str, Any]], Any], sink: str) -> Flags:
        import numpy as np

        if self._rows is None:
            self._rows = self._batch.to_pylist()
        answers: list[Any] = []
        try:
            for row in self._rows:
                answers.append(where(row))
        except Exception as error:
            if not is_refusal(error):
                raise
            raise DataError(
                f"where= ({name_of(where)}) refuses a row: {said(error)}; the row is "
                f"{described(self._rows[len(answers)])}",
                sink=sink,
                function=f"where= ({name_of(where)})",
                remedy="correct the condition, or the function that makes the row, then start the program again: the "
                "epoch is read again from where it began.",
            ) from error
        if not {bool, np.bool_, type(None)}.issuperset(map(type, answers)):
            raise self._no_answer(where, answers, sink)
        return np.fromiter(map(bool, answers), dtype=bool, count=len(answers))

    def _no_answer(self, where: Any, answers: list[Any], sink: str) -> ConfigurationError:
        import numpy as np

        assert self._rows is not None
        place = next(n for n, each in enumerate(answers) if type(each) not in (bool, np.bool_, type(None)))
        for each in filter(inspect.iscoroutine, answers):
            each.close()
        answer = answers[place]
        said = "an awaitable" if inspect.isawaitable(answer) else described(answer, 80)
        return ConfigurationError(
            f"where={name_of(where)} answers {said} ({type(answer).__name__}), neither yes nor no, "
            f"for the row {described(self._rows[place])}",
            sink=sink,
            remedy=_REMEDY,
        )


def _evaluated(expression: Any, table: pyarrow.Table) -> pyarrow.ChunkedArray:
    """The value of an expression for each row."""
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    projected = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["flag"]), inputs=[source])
    return projected.to_table(use_threads=False).column("flag")
