"""The page of `tpc ui` in a pipeline's own process: opened before anything starts, closed with the query.

Loads starlette and its kin only where the page is wanted; without them it is refused before anything starts. What is
shown is in `ui`: it reads the log, asks the sinks through connections of its own, and hears nothing of the engine.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from importlib.util import find_spec

from tpc.coordinator.kernel.checkpoint_files import CheckpointFiles
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.notices import Notice
from tpc.coordinator.kernel.transition import Transition
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.sink import Sink

logger = logging.getLogger(__name__)

NEEDED = ("jinja2", "starlette", "uvicorn")
_CLOSE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class PagePlace:
    """What the user says, and what is shown there. Without a port nothing is served."""

    port: int | None
    host: str
    log: Log
    checkpoint: CheckpointFiles
    pipeline: PipelineId
    sinks: tuple[Sink, ...]


class ServedPage:
    """The page of one pipeline until `close`.

    Raises `ConfigurationError` without its packages, without the port, and for an address of others without a token.
    """

    def __init__(self, pipeline: str, place: PagePlace) -> None:
        assert place.port is not None
        require_installed()
        from tpc.coordinator.operations.page.asking import PipelineSinks
        from tpc.coordinator.operations.page.serving import Site, read_token

        shown = (lambda: (place.log, place.checkpoint), PipelineSinks(place.pipeline, place.sinks))
        try:
            self._site = Site([shown], place.host, place.port, read_token(None))
        except ConfigurationError as error:
            remedy = f"ui_port=, ui_host=: {error.remedy}"
            raise ConfigurationError(error.what, pipeline=pipeline, remedy=remedy) from error
        self._thread = threading.Thread(target=self._site.run, name="tpc-ui", daemon=True)
        self._thread.start()
        logger.info("the page of %s: %s", pipeline, self._site.url)

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Nothing: the page sees what the log says."""

    def close(self) -> None:
        """Close the port."""
        self._site.close()
        self._thread.join(_CLOSE_TIMEOUT_S)


def require_installed() -> None:
    """Raises `ConfigurationError` where a package that the page needs is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"{', '.join(missing)} is not installed", remedy="pip install 'tpc[ui]'.")
