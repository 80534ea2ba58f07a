"""A logger for librdkafka clients that says nothing.

Without one they write their own log to standard error, into the middle of a table on the screen; every failure that
matters also fails a call.
"""

from __future__ import annotations

import logging

quiet = logging.Logger("tpc.chaos.running.quiet", level=logging.CRITICAL + 1)
