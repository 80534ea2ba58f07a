"""One line in the log for each turn of an epoch or a start, with fields for whoever reads logs by machine.

The logger is `tpc.epochs`. Every job writes these lines; where they go and in which format is the program's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from tpc.coordinator.kernel.notices import Notice, Turn
from tpc.describing import escaped
from tpc.errors import TpcError

logger = logging.getLogger("tpc.epochs")

FIELDS = ("event", "pipeline", "epoch", "sink", "generation", "seconds", "rows")
"""What every line has in `extra`; None where it has no meaning."""


def write_line(notice: Notice) -> None:
    """Write the line of a notice."""
    level, words = _LINES[notice.turn]
    logger.log(level, "pipeline %s: %s", notice.pipeline, escaped(words(notice)), extra=fields(notice))


def fields(notice: Notice) -> Mapping[str, object]:
    """The values of `FIELDS`."""
    seconds = None if notice.seconds is None else round(notice.seconds, 6)
    values = (notice.turn.value, notice.pipeline, notice.epoch, notice.sink, notice.generation, seconds, notice.rows)
    return dict(zip(FIELDS, values, strict=True))


def _recovered(notice: Notice) -> str:
    last = "no epoch is complete" if notice.epoch is None else f"epoch {notice.epoch} is the last complete one"
    return f"generation {notice.generation} has taken over in {notice.seconds:.3f} s, {last}"


def _decided(notice: Notice) -> str:
    return f"epoch {notice.epoch} is decided, {notice.rows} rows, {notice.seconds:.3f} s after its start"


def _complete(notice: Notice) -> str:
    return f"epoch {notice.epoch} is complete, {notice.rows} rows in {notice.seconds:.3f} s"


def _parked(notice: Notice) -> str:
    return f"epoch {notice.epoch} is parked, sink {notice.sink} refuses it: {_what(notice)}"


def _fenced(notice: Notice) -> str:
    return f"generation {notice.generation} stops: {_what(notice)}"


def _failed(notice: Notice) -> str:
    where = "the start" if notice.epoch is None else f"epoch {notice.epoch}"
    return f"{where} has failed: {_what(notice)}"


def _what(notice: Notice) -> str:
    """In one line; an error of others is named only, since its text may be long and show data."""
    return notice.error.what if isinstance(notice.error, TpcError) else type(notice.error).__name__


_LINES: Mapping[Turn, tuple[int, Callable[[Notice], str]]] = {
    Turn.RECOVERED: (logging.INFO, _recovered),
    Turn.DECIDED: (logging.INFO, _decided),
    Turn.COMPLETE: (logging.INFO, _complete),
    Turn.PARKED: (logging.ERROR, _parked),
    Turn.FENCED: (logging.WARNING, _fenced),
    Turn.FAILED: (logging.WARNING, _failed),
}
