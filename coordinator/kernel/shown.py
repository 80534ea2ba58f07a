"""The epochs that the sinks of a running pipeline show, held against its log.

A system may go back while a coordinator lives: a backup is restored, an asynchronous replica promoted. What the
comparison is stands in `tpc.shown_epochs`; here is what a driver does with its answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from tpc.errors import HistoryMismatchError
from tpc.history import History
from tpc.lost_commits import check_lost_commits
from tpc.shown_epochs import check_markers, check_swept
from tpc.sink import InDoubt, Limit, Marker, Sink

logger = logging.getLogger(__name__)


class Shown:
    """Compares for one pipeline; what proves nothing it tells once a sink."""

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._expiring = [name for name, sink in sinks.items() if Limit.MARKERS_EXPIRE in sink.limits]
        self._forgotten: set[str] = set()

    def check(self, history: History, markers: Mapping[str, Marker | None]) -> None:
        """What sinks show must be what the log says. Raises `HistoryMismatchError`."""
        forgotten = set(check_markers(history, markers, self._expiring))
        for name in sorted(forgotten - self._forgotten):
            logger.warning("sink %s shows no epoch any more; its markers expire, so this proves nothing", name)
        self._forgotten = (self._forgotten - markers.keys()) | forgotten

    def check_before_sweep(self, history: History, markers: Mapping[str, Marker | None]) -> None:
        """Sinks that are about to be swept must show no less. Raises `HistoryMismatchError`."""
        check_swept(history, markers, self._expiring)

    def lost(self, history: History, markers: Mapping[str, Marker | None], in_doubt: Iterable[InDoubt]) -> str | None:
        """Which sink has lost epochs of the log, in words, so that no start goes on; None when none has."""
        try:
            self.check_before_sweep(history, markers)
            check_lost_commits(history, in_doubt)
        except HistoryMismatchError as error:
            return f"sink {error.sink}: {error.what}"
        return None

    def check_last_look(
        self, history: History, markers: Mapping[str, Marker | None], still_leading: Callable[[], None]
    ) -> None:
        """The same right before an epoch is decided.

        What looks like a contradiction to a fenced coordinator is the work of the one that leads, so `still_leading`
        is asked first.
        """
        try:
            self.check(history, markers)
        except HistoryMismatchError:
            still_leading()
            raise
