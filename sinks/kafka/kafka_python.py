"""Which kafka-python is installed, and whether it has the private methods that `cluster` uses.

kafka-python can send any request to the coordinator of a transactional id or of a group, through methods it calls
private: another version may lack them, or mean something else by them. Loads the driver only to look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from tpc.errors import ConfigurationError

SUPPORTED = ">=3.0.4,<3.1"
"""As in pyproject.toml. 3.0.0 to 3.0.2 have the methods too, and an event loop that loses timers and revives closed
connections; of 3.1 nothing is known."""

_LOWEST, _ABOVE = (3, 0, 4), (3, 1)

PRIVATE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("kafka.admin", "KafkaAdminClient"): (
        *("_async_describe_features", "_async_list_transactions", "_find_coordinator_ids"),
        *("_client", "_manager", "_net"),
    ),
    ("kafka.net.manager", "KafkaConnectionManager"): (
        *("broker_version_data", "call_soon", "cluster", "run", "send", "wait_for"),
    ),
    ("kafka.cluster", "ClusterMetadata"): ("_coordinators", "brokers", "refresh_metadata"),
}
"""What is used of the client beside its constructor, `close` and the protocol's requests, by module and class."""


@lru_cache(maxsize=1)
def require_kafka_python() -> None:
    """Return when the installed kafka-python can end transactions. Raises `ConfigurationError`."""
    try:
        installed = version("kafka-python")
    except PackageNotFoundError:
        raise _unfit("no kafka-python is installed") from None
    if not _LOWEST <= tuple(int(number) for number in re.findall(r"\d+", installed)[:3]) < _ABOVE:
        raise _unfit(f"kafka-python {installed} is installed")
    if missing := missing_names():
        raise _unfit(f"kafka-python {installed} is installed and has no {', '.join(missing)}")


def missing_names() -> list[str]:
    """Those of `PRIVATE` that the installed kafka-python lacks, with their class."""
    return [
        f"{owner}.{name}"
        for (module, owner), names in PRIVATE.items()
        for name in names
        if not _has(getattr(import_module(module), owner), name)
    ]


def _has(owner: type, name: str) -> bool:
    """Whether a class has a method of this name, or its constructor an attribute."""
    return hasattr(owner, name) or name in owner.__init__.__code__.co_names  # type: ignore[misc]  # of any class


def _unfit(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what}, and the Kafka sinks end transactions with private methods of versions {SUPPORTED}",
        safe="nothing was asked or changed.",
        remedy=f"pip install 'kafka-python{SUPPORTED}'.",
    )
