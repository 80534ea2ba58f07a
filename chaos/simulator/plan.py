"""The plan that says what goes wrong in one simulation: a few strikes, each at the n-th opportunity of its kind.

Drawn before the run, so that an opportunity costs a look into a table and no chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from tpc.chaos.simulator.faults import Fault

ANYWHERE = ""
"""A place of a strike: any call."""

FAILPOINTS = (
    "epoch.prepared",
    "epoch.decided",
    "epoch.committed",
    "epoch.completed",
    "recovery.claimed",
    "recovery.owned",
    "recovery.swept",
)
"""Steps of `tpc.failpoints` that are places too."""

_CALLS = (
    "log.put",
    "sink.prepare",
    "sink.commit",
    "sink.abort",
    "sink.owner",
    "spark.offsets",
    "spark.commits",
)
RECORDS = ("log.put.generation", "log.put.intent", "log.put.repair", "log.put.complete")
"""Puts by the kind of their record: places for the faults of the log too."""
PLACES = (ANYWHERE, *_CALLS, *RECORDS, *FAILPOINTS)
"""Where a process can be struck: calls before and after their effect, and the failpoints of the driver."""

MOST_LATE_WRITES = 2
"""How many files of Spark's forgotten drivers write late in one run."""

_DUELS = 0.3
"""In how many runs two coordinators are meant to meet."""

_PLACED = {Fault.CRASH, Fault.POWER_CUT, Fault.FREEZE, Fault.RIVAL}

_OF_THE_LOG = (
    Fault.LOG_UNKNOWN_LANDED,
    Fault.LOG_UNKNOWN_LOST,
    Fault.LOG_UNKNOWN_LATE,
    Fault.LOG_FSYNC_LANDED,
    Fault.LOG_FSYNC_LOST,
    Fault.LOG_FULL,
    Fault.LOG_TORN,
    Fault.LOG_CUT,
    Fault.LOG_GONE,
    Fault.LOG_OLDER,
    Fault.LOG_FORKED,
)
_BY_CHANCE = tuple(fault for fault in Fault if fault not in (Fault.MOVED, Fault.SPARK_WRITE_LATE))
"""Of a run's own chance; the others are drawn apart (`with_a_move`, `with_late_writes`)."""
_DURING_REPAIRS = (Fault.CRASH, Fault.FREEZE, Fault.RIVAL, *_OF_THE_LOG)
"""What would hardly meet a repair by chance."""

_OPPORTUNITIES = {
    **dict.fromkeys((Fault.SINK_ERROR, Fault.SINK_DOWN), 120),
    **dict.fromkeys((Fault.TASK_FAILED, Fault.TASK_KILLED, Fault.TASK_SPECULATED, Fault.TASK_LATE), 30),
    **dict.fromkeys((Fault.PASS_FAILED, Fault.QUIET_HOURS, Fault.BOOKS_LOST), 6),
    **dict.fromkeys((Fault.OWNER_REPLY_LOST, Fault.OPERATOR_SWEEPS, Fault.OPERATOR_RECOVERS, Fault.WRONG_START), 2),
    Fault.MOVED: 2,
    **dict.fromkeys((Fault.ABORT_LATE, Fault.ABORT_REPLY_LOST, Fault.ABORT_DUPLICATED), 1),
    **dict.fromkeys((Fault.SPARK_LOG_LOST, Fault.SPARK_PLAN_TORN, Fault.SPARK_COMMIT_EMPTY, Fault.LOG_DAMAGED), 1),
    **dict.fromkeys((Fault.SPARK_LOG_BEHIND, Fault.SPARK_METADATA_LOST, Fault.MARKERS_EXPIRED), 1),
    **dict.fromkeys((Fault.TASKS_OUTLIVE, Fault.NOT_DETERMINISTIC), 1),
}
"""About how many opportunities a run gives."""
_OFTEN = 20
"""Of those not listed."""

_COMPANIONS = {
    Fault.LOG_DAMAGED: (Fault.POWER_CUT, ("sink.commit", "epoch.decided", "epoch.committed", "epoch.completed")),
    Fault.LOG_FSYNC_LANDED: (Fault.POWER_CUT, PLACES),
    Fault.SPARK_LOG_LOST: (Fault.POWER_CUT, ("spark.offsets", "spark.commits", "sink.prepare")),
    Fault.SPARK_PLAN_TORN: (Fault.POWER_CUT, ("sink.prepare", "epoch.completed")),
    Fault.SPARK_COMMIT_EMPTY: (Fault.POWER_CUT, ("spark.offsets",)),
    Fault.SPARK_LOG_BEHIND: (Fault.CRASH, PLACES),
    Fault.SPARK_METADATA_LOST: (Fault.CRASH, PLACES),
    Fault.MARKERS_EXPIRED: (Fault.CRASH, PLACES),
    Fault.OPERATOR_SWEEPS: (Fault.CRASH, PLACES),
    Fault.OPERATOR_RECOVERS: (Fault.CRASH, PLACES),
    Fault.WRONG_START: (Fault.CRASH, PLACES),
    Fault.MOVED: (Fault.FREEZE, PLACES),
    Fault.TASKS_OUTLIVE: (Fault.CRASH, ("sink.prepare",)),
    Fault.NOT_DETERMINISTIC: (Fault.CRASH, ("epoch.decided", "epoch.committed", "epoch.completed", "spark.commits")),
    Fault.ABORT_LATE: (Fault.TASK_KILLED, (ANYWHERE,)),
    Fault.ABORT_REPLY_LOST: (Fault.TASK_KILLED, (ANYWHERE,)),
    Fault.ABORT_DUPLICATED: (Fault.TASK_KILLED, (ANYWHERE,)),
}
"""What gives a fault its opportunity, and where: planned with it."""


@dataclass
class Strike:
    """One fault to come: at a `place` (for processes), after `skip` opportunities."""

    fault: Fault
    skip: int = 0
    place: str = ANYWHERE


@dataclass
class FaultPlan:
    """The strikes of one run, and which of them have fired."""

    waiting: dict[Fault, list[Strike]] = field(default_factory=dict)
    fired: Counter[Fault] = field(default_factory=Counter)
    calm: bool = False
    """Nothing strikes any more."""

    @classmethod
    def of_chance(cls, random: Random, count: int) -> FaultPlan:
        """`count` faults and the companions that they need."""
        kinds = random.choices(_BY_CHANCE, k=count)
        if count > 1 and random.random() < 0.3:
            kinds[1:] = random.choices(kinds, k=count - 1)  # some misfortunes come in swarms
        if random.random() < _DUELS:
            kinds += random.choices((Fault.FREEZE, Fault.RIVAL), k=random.randrange(1, 4))
        return cls.of(strike for kind in kinds for strike in drawn(random, kind))

    def with_a_move(self, random: Random) -> None:
        """Have the pipeline moved, and somebody try what must be refused then."""
        for strike in (*drawn(random, Fault.MOVED), *drawn(random, Fault.WRONG_START)):
            self.add(strike)

    def with_late_writes(self, random: Random) -> None:
        """Have processes go while Spark writes a file: the store writes over what is there."""
        for _ in range(random.randrange(MOST_LATE_WRITES + 1)):
            self.add(_one(random, Fault.SPARK_WRITE_LATE))

    @classmethod
    def of(cls, strikes: Iterable[Strike]) -> FaultPlan:
        """The plan of these strikes."""
        plan = cls()
        for strike in strikes:
            plan.add(strike)
        return plan

    def add(self, strike: Strike) -> None:
        """One more strike."""
        self.waiting.setdefault(strike.fault, []).append(strike)

    def strikes(self, fault: Fault, place: str = ANYWHERE) -> bool:
        """Whether `fault` strikes at this opportunity."""
        waiting = self.waiting.get(fault)
        if not waiting or self.calm:
            return False
        for strike in waiting:
            if not place.startswith(strike.place):
                continue
            strike.skip -= 1
            if strike.skip < 0:
                waiting.remove(strike)
                self.fired[fault] += 1
                return True
        return False


def drawn(random: Random, fault: Fault) -> list[Strike]:
    """A strike of `fault`, and that of its companion."""
    strikes = [_one(random, fault)]
    if fault in _COMPANIONS:
        companion, places = _COMPANIONS[fault]
        strikes.append(_at(random, companion, random.choice(places)))
    if fault is Fault.LOG_DAMAGED and random.random() < 0.5:
        strikes.append(_one(random, Fault.MARKERS_EXPIRED))  # which would hardly meet the damage by chance
    if fault is Fault.BRANCH_LOST:
        strikes.append(Strike(random.choice(_DURING_REPAIRS), 0, "log.put.repair"))
    return strikes


def _one(random: Random, fault: Fault) -> Strike:
    if fault in _PLACED:
        return _at(random, fault, random.choice(PLACES))
    if fault in _OF_THE_LOG and random.random() < 0.5:
        return Strike(fault, random.randrange(6), random.choice(RECORDS))
    return _at(random, fault, ANYWHERE)


def _at(random: Random, fault: Fault, place: str) -> Strike:
    if fault not in _PLACED:
        return Strike(fault, random.randrange(_OPPORTUNITIES.get(fault, _OFTEN)))
    often = 400 if place == ANYWHERE else 40 if place.startswith(("sink", "log")) else 8
    return Strike(fault, random.randrange(often), place)
