"""While an epoch's rows are made and written, its sources confirm that its events are of what their positions count in.

It takes a question to a cluster for each source, which nobody waits for unless the work is done sooner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

from tpc.coordinator.kernel.feeding.background_call import BackgroundCall

logger = logging.getLogger(__name__)


class Confirmation:
    """A context around the work on an epoch's events: `confirm` is called beside it, and has ended when that is done.

    What `confirm` raises is raised then. Work that fails is not held up by it, and its error is the one that is raised.
    None: there is nothing to ask.
    """

    def __init__(self, confirm: Callable[[], None] | None) -> None:
        self._confirm = confirm
        self._background: BackgroundCall | None = None

    def __enter__(self) -> Confirmation:
        if self._confirm is not None:
            background = BackgroundCall("tpc-confirming", self._confirm)
            try:
                background.begin()
            except RuntimeError as error:  # no more threads
                logger.warning("the sources are asked when the rows are written: %s", error)
            else:
                self._background = background
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._background is None:
            if self._confirm is not None and kind is None:
                self._confirm()
            return
        self._background.wait(None if kind is None else 0.0)
        met = self._background.error
        if met is not None and kind is None:
            raise met
        if met is not None:
            logger.error("the sources do not confirm the events of the epoch that has failed, either: %s", met)
