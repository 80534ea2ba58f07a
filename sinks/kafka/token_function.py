"""A user's function that returns tokens for OAUTHBEARER, named as `module:function` so that it is not pickled.

Both clients of the sink call it, in each process: librdkafka when its token expires, kafka-python when it connects. A
token is kept in memory only, and never shown.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tpc.errors import ConfigurationError, TransientError

SETTING = "oauth_cb"
"""confluent-kafka's name of the setting."""
USED_FOR = 0.8
"""A token is used for this fraction of its lifetime, so that it does not expire in use."""

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def check_name(name: object) -> None:
    """Raise `ConfigurationError` unless it names a function as `module:function`."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"the Kafka setting {SETTING!r} names no function: {name!r}",
            remedy="write 'module:function'. It is called with the value of sasl.oauthbearer.config ('' without it) and"
            " returns the token and the time at which it expires, in seconds since 1970. Every process imports it.",
        )


class TokenFunction:
    """The function of this name, called with `argument`: the value of `sasl.oauthbearer.config`."""

    def __init__(self, name: str, argument: str) -> None:
        self._name = name
        self._argument = argument
        self._function = _imported(name)
        self._lock = threading.Lock()
        self._token = ""
        self._use_until_s = 0.0

    def __call__(self, _argument: str = "") -> tuple[str, float]:
        """A new token and its expiry, in the form that librdkafka needs."""
        answer: Any = self._function(self._argument)
        token, ends_at_s = answer[0], float(answer[1])
        with self._lock:
            now_s = time.time()
            self._token, self._use_until_s = token, now_s + USED_FOR * (ends_at_s - now_s)
        return token, ends_at_s

    def current(self) -> str:
        """A token that has not expired. Raises `TransientError` if the function fails."""
        with self._lock:
            if self._token and time.time() < self._use_until_s:
                return self._token
        try:
            return self()[0]
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything, and quote a secret
            raise TransientError(
                f"{self._name} gave no token for Kafka: {type(error).__name__} (its text may hold a secret; call the "
                "function by hand to see it)",
                remedy="correct the function or what it calls; a supervisor starts the pipeline again meanwhile.",
            ) from None

    def __repr__(self) -> str:
        return f"TokenFunction({self._name!r})"


def ask_first(configuration: Mapping[str, Any]) -> None:
    """Get a token before a client of librdkafka is made with `configuration`: the client would report less, and later.

    Raises `TransientError` if the function fails.
    """
    if SETTING in configuration:
        configuration[SETTING].current()


def _imported(name: str) -> Callable[[str], Any]:
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"the Kafka setting {SETTING!r} names {name!r}, which is not there: {error}",
            remedy="put the module where every process of the pipeline can import it, as any code of the pipeline.",
        ) from error
