"""Short words for the tests of owner entries: terms of coordinators, and a race between them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tpc.sink import Committer, Owner


def term(generation: int, nonce: str = "n", since: float = 1_750_000_000.123457) -> Owner:
    """An owner entry. `since` has digits that only an exact form keeps."""
    return Owner(generation, f"{nonce}{generation}", since)


def race(committers: Sequence[Committer], generation: int, before: Owner | None) -> list[Owner]:
    """Let all try to replace `before` at one moment, each with a nonce of its own; the terms that won."""
    terms = [term(generation, f"racer{number}-") for number in range(len(committers))]
    start = Barrier(len(committers))

    def one(number: int) -> bool:
        start.wait(timeout=10)
        return committers[number].take_ownership(terms[number], before)

    with ThreadPoolExecutor(len(committers)) as pool:
        answers = list(pool.map(one, range(len(committers))))
    return [candidate for candidate, won in zip(terms, answers, strict=True) if won]
