"""Terms of coordinators for the tests of owner entries, and what all our sinks do beyond the conformance kit."""

from __future__ import annotations

from tpc.sink import Committer, Owner


def term(generation: int, nonce: str = "n", since: float = 1_750_000_000.123457) -> Owner:
    """An owner entry. `since` has digits that only an exact form keeps."""
    return Owner(generation, f"{nonce}{generation}", since)


def require_renewal(taking: Committer, before: Owner | None) -> None:
    """A term is put again with another time by one that still expects the entry before it: its reply was lost."""
    if before is not None:
        assert taking.take_ownership(before, None)
    for since in (1.0, 2.0):
        assert taking.take_ownership(term(2, since=since), before)
        assert taking.owner() == term(2, since=since)
    assert taking.take_ownership(term(2, since=3.0), term(2, since=2.0))
    assert taking.owner() == term(2, since=3.0)
