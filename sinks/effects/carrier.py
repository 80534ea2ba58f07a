"""The carrier: threads of the coordinator's process that make due calls, one at a time each, and note their outcomes.

The committer tells it which epochs are complete, and its generation; without a generation it calls nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from tpc.describing import escaped
from tpc.errors import FencedError, TransientError
from tpc.sink import Owner
from tpc.sinks.effects.calls import Calls, Claim
from tpc.sinks.effects.effect import (
    Call,
    Effect,
    EffectAnswerError,
    EffectRefusedError,
    EffectsOverdueError,
    EffectUnavailableError,
    Fate,
    Guarantee,
    made,
)
from tpc.support.deadlines import Deadline, until

if TYPE_CHECKING:
    from tpc.sinks.effects.sink import EffectSink

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 2.0
"""How often an idle carrier looks for effects that an operator wants to be called again."""


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of a call, and what is stored of its answer."""

    fate: Fate
    words: str
    refused: bool = False


class Carrier:
    """Carries out the effects of one sink of one pipeline under `owner`'s generation, until `stop` or a takeover."""

    def __init__(self, sink: EffectSink, call: Call, calls: Calls, owner: Owner) -> None:
        self.sink, self.calls, self.owner = sink, calls, owner
        self._ours = [owner]
        """The generations of which one is in the outbox; two while the outcome of a renewal is unknown."""
        self._call = call
        self._complete = -1
        self._has_begun = False
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        names = (f"tpc-effects-{sink.name}-{number}" for number in range(sink.concurrency))
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for name in names]

    def start(self) -> None:
        """Begin: take over from the carrier before, then call what is due."""
        for thread in self._threads:
            thread.start()

    def renew(self, owner: Owner) -> None:
        """Go on under the coordinator's next generation. Raises `FencedError`, `TransientError`."""
        with self._changed:
            self._ours.append(owner)
            if self._has_begun:
                self.calls.renew(self._ours, owner)
            self.owner, self._ours = owner, [owner]

    def carry_to(self, epoch: int) -> None:
        """Note that every epoch up to this one is complete."""
        with self._changed:
            self._complete = max(self._complete, epoch)
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until all effects of complete epochs are carried out or left for a person.

        Raises `EffectsOverdueError`.
        """
        timeout_s = self.sink.wait_timeout_s
        over = until(lambda: self._stopping.is_set() or not self._left()[0], timeout_s, pause_max_s=0.1)
        if over and not self._stopping.is_set():
            return
        number, first = self._left()
        if number:
            why = "another coordinator carries them out" if self._stopping.is_set() else f"after {timeout_s:g} s"
            what = f"{number} effects of epochs up to {self._complete} are not carried out ({why}), first {first}"
            raise EffectsOverdueError(what, sink=self.sink.name)

    def stop(self) -> None:
        """Begin no further call, and wait for calls under way as long as a call may take."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        deadline = Deadline(self.sink.call_timeout_s + self.sink.timeout_s)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(deadline.remaining_s)

    def _left(self) -> tuple[int, str]:
        return self.calls.open_effects(self._complete)

    # The threads -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                claim = self._claim()
                if claim is not None:
                    self._carry(claim)
            except FencedError as error:
                logger.warning("sink %s makes no further calls: %s", self.sink.name, error.what)
                self._stopping.set()
            except TransientError as error:
                logger.warning("sink %s cannot carry out its effects now and tries again: %s", self.sink.name, error)
                self._stopping.wait(LOOK_AGAIN_S)
            except Exception:  # nothing would start this thread again
                logger.exception("sink %s: an unexpected error in its carrier, which goes on", self.sink.name)
                self._stopping.wait(LOOK_AGAIN_S)

    def _claim(self) -> Claim | None:
        """The next effect, or None after a pause."""
        with self._changed:  # one thread at a time: the others would wait for the database anyway
            if self._stopping.is_set():
                return None
            if not self._has_begun:
                self.calls.begin_term(self.owner, self.sink.guarantee)
                self._has_begun = True
            claim = self.calls.claim(self._ours, self._complete)
            if claim is None:
                due_s = self.calls.next_due_s(self._complete)
                self._changed.wait(LOOK_AGAIN_S if due_s is None else min(due_s, LOOK_AGAIN_S))
            return claim

    def _carry(self, claim: Claim) -> None:
        call = UnderWay(lambda: _words(made(self._call(claim.effect))), name=f"tpc-effect-{claim.number}")
        self._note(claim, self._outcome(claim.effect, call))
        if not call.ends_within(0.0):
            self._keep_slot(claim, call)

    def _keep_slot(self, claim: Claim, call: UnderWay[str]) -> None:
        """Wait for a call over its deadline: a thread that made another call meanwhile would let calls pile up."""
        logger.warning(
            "sink %s: the call for %s still runs after %g s, and counts as one of %d parallel calls until it ends",
            *(self.sink.name, claim.effect.key, self.sink.call_timeout_s, self.sink.concurrency),
        )
        while not call.ends_within(LOOK_AGAIN_S / 10):
            if self._stopping.is_set():
                return
        with suppress(BaseException):  # the call is noted as unknown already, and an error would add nothing
            answer = call.answer(0.0)
            self._noted(lambda: self.calls.done(claim, answer))

    def _note(self, claim: Claim, outcome: CallOutcome) -> None:
        if outcome.fate is Fate.DONE:
            self._noted(lambda: self.calls.done(claim, outcome.words))
            return
        pause_s = self.sink.retry.pause_s(claim.attempt) if outcome.fate is Fate.WAITING else 0.0

        def note() -> None:
            fate, words, refused = outcome.fate, outcome.words, outcome.refused
            with self._changed:  # no renewal in between: the generation in the outbox is one of ours
                self.calls.not_done(self._ours, claim, fate, words, refused=refused, pause_s=pause_s)

        self._noted(note)

    def _outcome(self, effect: Effect, call: UnderWay[str]) -> CallOutcome:
        retry = self.sink.retry
        try:
            answer = call.answer(self.sink.call_timeout_s)
        except EffectRefusedError as error:
            dead, words = effect.refusals + 1 >= retry.refusals, _words(error)
            if dead:
                said = escaped(words)
                logger.error("sink %s: %s was refused %d times: %s", self.sink.name, effect.key, retry.refusals, said)
            return CallOutcome(Fate.DEAD if dead else Fate.WAITING, words, refused=True)
        except EffectUnavailableError as error:
            return CallOutcome(Fate.WAITING, _words(error))
        except EffectAnswerError as error:
            again = self.sink.guarantee is Guarantee.AT_LEAST_ONCE
            logger.error("sink %s: the outcome of %s is unknown: %s", self.sink.name, effect.key, escaped(str(error)))
            return CallOutcome(Fate.WAITING if again else Fate.UNKNOWN, str(error))
        except BaseException as error:  # noqa: BLE001  after any other error of the user's call its outcome is unknown
            again, kind = self.sink.guarantee is Guarantee.AT_LEAST_ONCE, type(error).__name__
            logger.warning("sink %s: the outcome of %s is unknown: %s", self.sink.name, effect.key, kind)
            return CallOutcome(Fate.WAITING if again else Fate.UNKNOWN, kind)
        return CallOutcome(Fate.DONE, answer)

    def _noted(self, note: Callable[[], None]) -> None:
        """Repeat until it is noted: an effect without a note would wait for the next start."""
        while True:
            is_last = self._stopping.is_set()
            try:
                return note()
            except TransientError as error:
                logger.warning("sink %s: the outcome of a call cannot be noted yet: %s", self.sink.name, error)
                if is_last:
                    return None  # the next carrier finds it as an effect of unknown outcome
                self._stopping.wait(LOOK_AGAIN_S)


def _words(said: object) -> str:
    """`said` as text that the outbox can hold; empty if it has no text."""
    try:
        return "" if said is None else str(said).encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001  a user's object may raise anything, and the call is made
        return ""


# One call in a thread of its own. The caller can stop waiting; the call runs on until it ends.

Answer = TypeVar("Answer")


class UnderWay(Generic[Answer]):
    """A call that begins when the object is made. Times are by the monotonic clock."""

    def __init__(self, call: Callable[[], Answer], *, name: str) -> None:
        self._call = call
        self._answers: list[Answer] = []
        self._error: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._answers.append(self._call())
        except BaseException as error:  # noqa: BLE001  raised again in `answer`
            self._error = error
        finally:
            self._over.set()

    def ends_within(self, timeout_s: float) -> bool:
        """Whether it has ended, or ends within the time."""
        return self._over.wait(timeout_s)

    def answer(self, timeout_s: float) -> Answer:
        """What it returned. Raises what it raised, and `TimeoutError` if it does not end in time."""
        if not self.ends_within(timeout_s):
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        if self._error is not None:
            raise self._error
        return self._answers[0]
