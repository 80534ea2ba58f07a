"""The library's log as JSON: one object a line, with the fields of `log_lines` where a line has them."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import TextIO

from tpc.coordinator.operations.monitoring.log_lines import FIELDS


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
        return json.dumps(line, ensure_ascii=False, default=str)


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
