"""Checks which kafka-python is installed, and whether it has the private methods that `cluster` uses.

kafka-python can send any request to the coordinator of a transactional id or of a group, through private methods.
Another version may lack them, or use them for something else. The check loads kafka-python, the import of this module
does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from tpc.errors import ConfigurationError

SUPPORTED = ">=3.0.4,<3.1"
"""As in pyproject.toml. 3.0.0 to 3.0.2 have the methods too, but their event loop loses timers and revives closed
connections. 3.1 was not tested."""

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
"""The private names that are used, by module and class; also used are the constructor, `close` and the requests."""


def require_kafka_python(sink: str | None) -> None:
    """Return if the installed kafka-python can end transactions (for `sink`) and read topic ids (for a source).

    Raises `ConfigurationError`.
    """
    complaint = unfitness()
    if complaint is not None:
        raise ConfigurationError(
            f"{complaint}, and Kafka's transactions are ended, and its topics distinguished, with private methods of "
            f"versions {SUPPORTED}",
            sink=sink,
            remedy=f"pip install 'kafka-python{SUPPORTED}'.",
        )


@lru_cache(maxsize=1)
def unfitness() -> str | None:
    """What is wrong with the installed kafka-python; None if nothing is. Checked once per process."""
    try:
        installed = version("kafka-python")
    except PackageNotFoundError:
        return "no kafka-python is installed"
    if not _LOWEST <= tuple(int(number) for number in re.findall(r"\d+", installed)[:3]) < _ABOVE:
        return f"kafka-python {installed} is installed"
    missing = missing_names()
    return f"kafka-python {installed} is installed and has no {', '.join(missing)}" if missing else None


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
