"""Gives kafka-python tokens of OAUTHBEARER."""

from __future__ import annotations

from kafka.net.sasl.oauth import AbstractTokenProvider

from tpc.sinks.kafka.token_function import TokenFunction


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Calls the user's function, and again when a token is about to expire."""

    def __init__(self, function: TokenFunction) -> None:
        super().__init__()
        self._function = function

    def token(self) -> str:
        """See `TokenFunction.current`."""
        return self._function.current()

    def __repr__(self) -> str:
        return f"TokenProvider({self._function!r})"
