"""Conversations for the framings: what client and server say in turn, and what a framing makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tpc.chaos.proxy import Request
from tpc.chaos.proxy.framing import Framing, Piece

CLIENT, SERVER = "client", "server"


class Said(NamedTuple):
    """One side's bytes, until the other's turn."""

    who: str
    data: bytes


class Seen(NamedTuple):
    """A piece in comparable words: exchanges are numbered in the order in which they were met."""

    who: str
    data: bytes
    exchange: int | None
    asks: Request | None
    ends: bool


def understood(framing: Framing, said: Iterable[Said]) -> list[Seen]:
    """What a framing cuts a conversation into."""
    numbers: dict[object, int] = {}

    def words(who: str, piece: Piece) -> Seen:
        number = None if piece.exchange is None else numbers.setdefault(piece.exchange, len(numbers) + 1)
        return Seen(who, piece.data, number, piece.asks, piece.ends)

    seen = []
    for who, data in said:
        pieces = framing.requests(data) if who == CLIENT else framing.replies(data)
        seen += [words(who, piece) for piece in pieces]
    return seen


def split_everywhere(said: Sequence[Said]) -> Iterable[list[Said]]:
    """The conversation with one of its parts cut in two, at every place in turn; and all of it byte by byte."""
    for index, (who, data) in enumerate(said):
        for at in range(1, len(data)):
            yield [*said[:index], Said(who, data[:at]), Said(who, data[at:]), *said[index + 1 :]]
    yield [Said(who, data[at : at + 1]) for who, data in said for at in range(len(data))]


def assert_splitting_changes_nothing(make: Callable[[], Framing], said: Sequence[Said]) -> None:
    whole = understood(make(), said)
    assert any(seen.ends for seen in whole)
    for split in split_everywhere(said):
        assert understood(make(), split) == whole


def assert_passed_untouched(framing: Framing, said: Sequence[Said]) -> None:
    """Whatever comes goes on, in order, each way."""
    seen = understood(framing, said)
    for who, rest in ((CLIENT, framing.rest_of_requests()), (SERVER, framing.rest_of_replies())):
        passed = b"".join(piece.data for piece in seen if piece.who == who) + rest
        assert passed == b"".join(data for one, data in said if one == who)
