"""Makes the first use of a message in kafka-python thread-safe: one thread at a time creates its class and decoder.

Without this, two threads that use a message for the first time at once create both twice. kafka-python then registers
one class for answers and keeps the other, so the registered one is lost with the next garbage collection. Or a decoder
is made for a mere reference to its class. From then on this process can read no answer of this kind, and a decided
epoch would wait for its commits until a restart. Installed once, on import of this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kafka.protocol.api_message import VersionSubscriptable
from kafka.protocol.schemas import StructField

from tpc.support.fork_safe_lock import ForkSafeLock

_making = ForkSafeLock(fork_waits=True)
"""A fork waits, since a forked process must not inherit a half-made class either."""


def _one_at_a_time(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with _making:
            return method(*args, **kwargs)

    return alone


def _install() -> None:
    for owner, name in ((VersionSubscriptable, "__getitem__"), (StructField, "compiled_decode_from")):
        method = getattr(owner, name, None)
        if method is not None and not hasattr(method, "__wrapped__"):
            setattr(owner, name, _one_at_a_time(method))


_install()
