"""Short words for the tests of owner entries: terms of coordinators."""

from __future__ import annotations

from tpc.sink import Owner


def term(generation: int, nonce: str = "n", since: float = 1_750_000_000.123457) -> Owner:
    """An owner entry. `since` has digits that only an exact form keeps."""
    return Owner(generation, f"{nonce}{generation}", since)
