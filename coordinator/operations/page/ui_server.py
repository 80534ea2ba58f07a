"""The page of `tpc ui` in a pipeline's own process: opened before anything starts, closed with the query.

Loads jinja2 only where the page is wanted; without it the page is refused before anything starts. What is shown is in
`pages`: they read the log, ask the sinks through connections of their own, and hear nothing of the engine.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.notices import Notice
from tpc.coordinator.kernel.transition import Transition
from tpc.coordinator.operations.address import Address
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from tpc.coordinator.kernel.job import Job

logger = logging.getLogger(__name__)

NEEDED = ("jinja2",)


class ServedPage:
    """The page of `job` at `address` until `close`; with a token, for those who show it.

    Raises `ConfigurationError` without its packages, without the port, and for an address of others without a token.
    """

    def __init__(self, job: Job, address: Address, token: str | None) -> None:
        require_installed()
        from tpc.coordinator.operations.page.serving import Site
        from tpc.coordinator.operations.page.sink_answers import PipelineSinks

        log, checkpoint = job.log, job.checkpoint
        shown = (lambda: (log, checkpoint), PipelineSinks(job.id, job.sinks))
        try:
            self._site = Site([shown], address, token)
        except ConfigurationError as error:
            remedy = f"page=, of `tpc run` --ui-port and --ui-host: {error.remedy}"
            raise ConfigurationError(error.what, pipeline=job.id.name, remedy=remedy) from error
        logger.info("the page of %s: %s", job.id.name, self._site.url)

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Nothing: the page sees what the log says."""

    def close(self) -> None:
        """Close the port."""
        self._site.close()


def require_installed() -> None:
    """Raises `ConfigurationError` where a package that the page needs is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"{', '.join(missing)} is not installed", remedy="pip install 'tpc[ui]'.")
