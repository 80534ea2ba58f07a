"""Rules: which request of all that pass the proxy is hit, by what, and the record that it was.

A rule counts the requests that match it over all connections of its proxy. How a request is recognised is in
the framings, what the actions do to a connection in `relay`.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

DETAIL_MAX = 300


@dataclass(frozen=True)
class Request:
    """A request as rules see it: its kind, and what tells it from others of that kind.

    PostgreSQL: the statement's first word or two ("COMMIT PREPARED"), and the SQL text. Kafka: the name of the API
    ("EndTxn"), and the transactional id ("commit " or "abort " before it for EndTxn). Mongo: the command's name
    ("insert"), and "database.collection".
    """

    kind: str
    detail: str = ""


class Action(Enum):
    """What happens to the request that a rule hits."""

    LOSE_REPLY_AND_RESET = "the server carries it out; its reply is swallowed, then the connection is reset"
    LOSE_REPLY_SILENTLY = "the server carries it out; its reply is swallowed, and the connection stays"
    LOSE_REQUEST = "the connection is reset before the server hears of it"
    HOLD_REPLY = "the server carries it out; its reply, and what follows it on that connection, waits"
    WATCH = "nothing; only recorded"


@dataclass(frozen=True)
class Fired:
    """A rule has hit a request: when (`at`, seconds since 1970), which, and on which connection (from 1)."""

    at: float
    request: Request
    action: Action
    connection: int


class Rule:
    """Hits the `nth` request that is of `kind` (None: any) and whose detail `matching` is found in.

    `times` is how many are hit, beginning with that one; None: all. `hold_s` is for `HOLD_REPLY`: how long, unless the
    rule is removed sooner (None: until then). `before` runs when the request to be hit has come and before anything
    is done with it, `on_fired` when the rule has been recorded as fired and before a connection is reset; both in a
    thread of their own, while that connection waits. If one of them raises, the connection is reset.
    """

    def __init__(
        self,
        action: Action,
        kind: str | None = None,
        *,
        matching: str | None = None,
        nth: int = 1,
        times: int | None = 1,
        hold_s: float | None = None,
        before: Callable[[Request], None] | None = None,
        on_fired: Callable[[Fired], None] | None = None,
    ) -> None:
        self.action = action
        self.kind = kind
        self.matching = None if matching is None else re.compile(matching, re.IGNORECASE | re.DOTALL)
        self.first, self.last = nth, math.inf if times is None else nth + times - 1
        self.hold_s = hold_s
        self.before = before
        self.on_fired = on_fired
        self.removed = asyncio.Event()
        """Set, in the proxy's thread, when the rule is taken out."""
        self._seen = 0
        self._fired: list[Fired] = []
        self._has_fired = threading.Event()

    @property
    def seen(self) -> int:
        """How many requests have matched, hit or not."""
        return self._seen

    @property
    def fired(self) -> tuple[Fired, ...]:
        """What it has hit, oldest first. A lost reply is there once the server's whole reply has been swallowed."""
        return tuple(self._fired)

    def wait(self, timeout_s: float) -> bool:
        """Whether it has fired, waiting for at most `timeout_s`."""
        return self._has_fired.wait(timeout_s)

    def is_due(self, request: Request) -> bool:
        """Count a request; whether it is to be hit."""
        if self.kind not in (None, request.kind) or not (self.matching is None or self.matching.search(request.detail)):
            return False
        self._seen += 1
        return self.first <= self._seen <= self.last

    def record(self, request: Request, connection: int) -> Fired:
        """It has hit `request`."""
        shown = Request(request.kind, request.detail[:DETAIL_MAX])
        fired = Fired(time.time(), shown, self.action, connection)
        self._fired.append(fired)
        self._has_fired.set()
        return fired


class Rules:
    """The rules in force. Lives in the proxy's thread."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> None:
        """From now on it counts."""
        self._rules.append(rule)

    def remove(self, rule: Rule) -> None:
        """From now on it hits nothing; replies that it holds go on. Nothing happens when it is not there."""
        if rule in self._rules:
            self._rules.remove(rule)
        rule.removed.set()

    def due(self, request: Request) -> list[Rule]:
        """The rules that hit this request: those that watch, then one that acts (the oldest). All that match count."""
        due = [rule for rule in self._rules if rule.is_due(request)]
        acting = [rule for rule in due if rule.action is not Action.WATCH]
        return [rule for rule in due if rule.action is Action.WATCH] + acting[:1]
