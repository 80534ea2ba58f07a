"""Has one thread at a time make what kafka-python makes of a message at its first use: its class, and its decoder.

Two threads that use a message for the first time at once make both twice. Of the classes one is registered for answers
and the other kept, so that the registered one is gone with the next collection of garbage; a decoder may be made for a
mere reference to its class. From then on no answer of this kind is read in this process: a decided epoch would wait for
its commits until the process is started again. Installed when this module is imported, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kafka.protocol.api_message import VersionSubscriptable
from kafka.protocol.schemas import StructField

from tpc.support.fork_safe_lock import ForkSafeLock

_making = ForkSafeLock(fork_waits=True)
"""Half a class is as bad in a forked process as with a second thread."""


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
