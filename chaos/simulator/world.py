"""The simulated world: virtual time, one source of chance, a transcript, and messages that are still under way.

Everything durable (log, sinks, Spark's files) hangs on one `World`, and every call of a coordinator passes `call`:
there time goes on, faults strike, and another process may get its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.plan import ANYWHERE, FaultPlan
from tpc.handles import PipelineId

if TYPE_CHECKING:
    from tpc.chaos.simulator.processes import Process

PIPELINE = PipelineId("simulated")
CALL_S = 0.002
"""How long a call takes, in virtual seconds."""
MOST_CALLS = 60_000
"""A run makes a few thousand calls."""


class Invariant(str, Enum):
    """What must hold, by name."""

    ATOMIC = "atomic"
    """All branches of an epoch end alike."""
    DURABLE = "durable"
    """What is decided stays decided."""
    EXACTLY_ONCE = "exactly-once"
    """No row is missing in a sink or there twice."""
    NO_LEFTOVERS = "no-leftovers"
    """What is prepared and not decided is aborted in the end."""
    FENCED_IS_HARMLESS = "fenced-is-harmless"
    """A coordinator that another has followed decides and undoes nothing."""
    LIVE = "live"
    """Once faults stop, the pipeline finishes its work."""
    INTENT_FIRST = "intent-first"
    """No commit takes effect before the record that decides it is durable."""
    LAST_LOOK = "last-look"
    """No epoch is decided before each branch that can expire was seen alive."""
    LOG_BOUNDED = "log-bounded"
    """The log holds no more epochs than it was told to keep."""
    OWNED = "owned"
    """Every sink knows the last coordinator for its owner."""
    BELONGING = "belonging"
    """A start with another log, or with other sinks than the log names, is refused and changes nothing."""
    GOING_BACK = "going-back"
    """No epoch is decided by a coordinator under which a sink has gone back before its last look."""
    STATE = "state"
    """Spark's state has seen every decided epoch once, in their order."""
    NO_FALSE_ALARM = "no-false-alarm"
    """A coordinator stops for good only when something is really wrong."""


class Killed(BaseException):
    """The process ends here, as by SIGKILL."""


class Halted(BaseException):
    """An invariant is violated: the simulation ends here."""


class InvariantViolation(AssertionError):  # noqa: N818  what it is called everywhere
    """What must hold does not: the invariant's `name`, `what` was seen, and the `seed` that shows it again."""

    def __init__(self, name: str, what: str, seed: int) -> None:
        super().__init__(f"seed {seed}: {name}: {what}")
        self.name = name
        self.what = what
        self.seed = seed


@dataclass
class Message:
    """Something under way that arrives after `calls` more calls of anybody."""

    what: str
    calls: int
    arrive: Callable[[], None]


@dataclass
class World:
    """What all coordinators of one simulation share."""

    seed: int
    random: Random
    plan: FaultPlan
    now_s: float = 1_000_000.0
    calls: int = 0
    """How many calls all coordinators have made."""
    transcript: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    acting: Process | None = None
    """The process whose turn it is; None: the supervisor's, or nobody's."""
    violation: InvariantViolation | None = None
    sinks_well_since_s: float = 0.0
    """When a sink last failed to answer."""
    power_cut_asked: bool = False
    rival_asked: bool = False
    transitions: Counter[tuple[str, str]] = field(default_factory=Counter)

    def tell(self, what: str) -> None:
        """One line of the transcript."""
        who = "-" if self.acting is None else self.acting.name
        self.transcript.append(f"{self.now_s - 1_000_000.0:10.3f}  {who:4} {what}")

    def violated(self, invariant: Invariant, what: str) -> Halted:
        """Note the first violation; raise what this returns."""
        if self.violation is None:
            self.tell(f"VIOLATED {invariant.value}: {what}")
            self.violation = InvariantViolation(invariant.value, what, self.seed)
        return Halted()

    def strikes(self, fault: Fault, what: str = "", place: str = ANYWHERE) -> bool:
        """Whether `fault` strikes now, at `place`; what it means goes into the transcript."""
        if not self.plan.strikes(fault, place):
            return False
        self.tell(f"FAULT {fault.value}{': ' if what else ''}{what}")
        return True

    def call(self, place: str, *, after: bool = False) -> None:
        """A call reaches `place`, or has had its effect there: time passes, messages arrive, somebody may die."""
        self.now_s += CALL_S
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise self.violated(Invariant.LIVE, f"nothing ends after {self.calls} calls")
        if self.messages:
            self._deliver()
        process = self.acting
        if process is None:
            return
        name = f"{place}.after" if after else place
        if self.plan.waiting and not self.plan.calm:
            self._strike(process, name)
        process.may_be_interrupted(name)

    def _strike(self, process: Process, place: str) -> None:
        strikes = self.plan.strikes
        if strikes(Fault.CRASH, place):
            self.tell(f"FAULT crash at {place}")
            raise Killed
        if strikes(Fault.POWER_CUT, place):
            self.tell(f"FAULT power-cut at {place}")
            self.cut_power()
        if strikes(Fault.FREEZE, place):
            self.tell(f"FAULT freeze at {place}")
            process.thaws_at_call = self.calls + self.random.choice((5, 50, 500, 1500))
        if strikes(Fault.RIVAL, place):
            self.tell(f"FAULT rival at {place}")
            self.rival_asked = True

    def cut_power(self) -> None:
        """Every process dies now; the supervisor lets the disks forget. Raises `Killed`."""
        self.power_cut_asked = True
        raise Killed

    def later(self, what: str, arrive: Callable[[], None], calls: int | None = None) -> None:
        """Something is under way and arrives later, whoever lives then."""
        delay = self.random.choice((3, 30, 300)) if calls is None else calls
        self.messages.append(Message(what, 1 + self.random.randrange(delay), arrive))

    def _deliver(self) -> None:
        due = []
        for message in self.messages:
            message.calls -= 1
            if message.calls <= 0:
                due.append(message)
        if due:
            self._arrive(due)

    def deliver_all(self) -> None:
        """Everything under way arrives."""
        self._arrive(list(self.messages))

    def _arrive(self, due: list[Message]) -> None:
        for message in due:
            self.messages.remove(message)
            self.tell(f"  arrives: {message.what}")
            message.arrive()
