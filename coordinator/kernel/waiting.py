"""Says whom the driver waits for: a wrong address is silent until the client's own time is up, half a minute."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any

from tpc.sink import Sink

logger = logging.getLogger(__name__)

TELL_AFTER_S = 3.0


def tell_late(answers: Mapping[str, Future[Any]], sinks: Mapping[str, Sink]) -> None:
    """Return when all answers are there, or after `TELL_AFTER_S` with a warning for each sink that owes one."""
    wait(answers.values(), TELL_AFTER_S)
    for name, answer in answers.items():
        if not answer.done():
            settings = ", ".join(f"{key} {value}" for key, value in sinks[name].describe().items())
            whom = f"{name} ({sinks[name].kind}: {settings})" if settings else f"{name} ({sinks[name].kind})"
            logger.warning("waiting for sink %s: no answer for %g s", whom, TELL_AFTER_S)
