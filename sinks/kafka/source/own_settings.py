"""The settings of the client that reading exactly once depends on: a user may not set them."""

from __future__ import annotations

from collections.abc import Mapping

OURS: Mapping[str, str | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
"""Settings of librdkafka that reading exactly once depends on."""
