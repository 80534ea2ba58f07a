"""The library's log as JSON, one object a line, for whoever reads logs by machine.

Lines about epochs and starts (`tpc.coordinator.kernel.epoch_lines`) have fields of their own in it.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import TextIO

from tpc.coordinator.kernel.epoch_lines import FIELDS
from tpc.describing import is_shown


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object in one line.

    Keys: `time` (ISO 8601, UTC), `level`, `logger`, `message`; of the lines about epochs and starts also `event`,
    `pipeline`, `epoch`, `sink`, `generation`, `seconds`, `rows`; `exception` where there is a traceback. What others
    put into `extra` is left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See the class."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False, default=str)
        return text if text.isprintable() else "".join(one if is_shown(one) else json.dumps(one)[1:-1] for one in text)


class _JsonHandler(logging.StreamHandler[TextIO]):
    """Told from the handlers of others by its class."""


def json_logging(*, level: int = logging.INFO, stream: TextIO | None = None) -> logging.Handler:
    """Write what the library logs from `level` on to `stream` (standard error) as JSON, and nowhere else.

    Concerns the logger `tpc` and those below it. A second call replaces the first. Returns the handler.
    """
    logger = logging.getLogger("tpc")
    for handler in [one for one in logger.handlers if isinstance(one, _JsonHandler)]:
        logger.removeHandler(handler)
    handler = _JsonHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    return handler
