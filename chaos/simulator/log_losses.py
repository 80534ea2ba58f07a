"""What a running coordinator's log may lose, and how it comes back: all of it, its newest records, or for a fork.

Records that are away lie on some other disk: an operator can bring the whole log back, until somebody has gone on in
the older copy. A copy in which somebody may go on lacks nothing but the note that an epoch is complete: what the loss
of the only copy of a decision or of a claim makes unknowable is judged by nobody.
"""

from __future__ import annotations

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.world import World

_MAY_BE_LOST = "complete"
"""Kind of the records without which the others still say what was decided, and who owns the sinks."""


class LogLosses:
    """Takes slots of a log's `content` away, and brings them back."""

    def __init__(self, world: World, ledger: Ledger, content: dict[int, bytes]) -> None:
        self.world = world
        self.ledger = ledger
        self.content = content
        self.away: dict[int, bytes] = {}
        """The records that are not where they were."""
        self.may_be_forked = False
        """Whether the older copy in place is one in which somebody may go on."""
        self.ever = False
        """Whether anything was ever taken away."""

    def strike(self, place: str) -> None:
        """Perhaps the log loses something now."""
        if self.away or not self.content or self.ledger.highest_slot not in self.content:
            return
        strikes = self.world.strikes
        alone = self.world.acting is not None and not self.world.acting.interleaved
        if alone and strikes(Fault.LOG_GONE, place, place):
            self._take(len(self.content))
        elif alone and strikes(Fault.LOG_OLDER, place, place):
            self._take(self.world.random.randrange(1, len(self.content) + 1))
        elif (most := self._without_a_trace()) and strikes(Fault.LOG_FORKED, place, place):
            self._take(self.world.random.randrange(1, most + 1))
            self.may_be_forked = True
            self._let_a_second_one_start()

    def _let_a_second_one_start(self) -> None:
        self.world.rival_asked = True
        if self.world.acting is not None:
            self.world.acting.thaws_at_call = self.world.calls + self.world.random.choice((5, 50, 500))

    def _without_a_trace(self) -> int:
        """How many of the newest records nobody needs in order to know what is decided; never all."""
        slots = sorted(self.content, reverse=True)
        for number, slot in enumerate(slots):
            kind, _ = self.ledger.bodies.get(slot, ("", {}))
            if kind != _MAY_BE_LOST:
                return number
        return len(slots) - 1

    def _take(self, count: int) -> None:
        for slot in sorted(self.content, reverse=True)[:count]:
            self.away[slot] = self.content.pop(slot)
        self.ever = True
        self.world.tell(f"  slots {sorted(self.away)} of the log are away, {len(self.content)} are there")

    def put_back(self) -> None:
        """An operator brings the whole log back."""
        if self.away:
            self.world.tell("operator: brings the whole log back")
            self.content.update(self.away)
            self.away.clear()
            self.may_be_forked = False

    def before_a_start(self) -> None:
        """Somebody starts the pipeline: with nothing of the log, with an older copy that may go on, or all is back."""
        if self.may_be_forked or not self.away:
            return
        if self.content or not self._sinks_know_the_pipeline() or self.world.random.random() < 0.5:
            self.put_back()

    def _sinks_know_the_pipeline(self) -> bool:
        return bool(self.ledger.complete)

    def goes_on(self) -> None:
        """A record lands: what is away is in no log any more, and nobody may have acted on it."""
        if self.away:
            self.world.tell(f"  the log goes on without slots {sorted(self.away)}")
            for slot in sorted(self.away, reverse=True):
                self.ledger.forget(slot)
            self.away.clear()
            self.may_be_forked = False
