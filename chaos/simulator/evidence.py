"""What a process has met that was really wrong when it looked: the grounds that its alarm may have.

An alarm is heard later than the look that it rests on. Meanwhile an operator whom another process has called may have
put back what was wrong; so an alarm is judged by what its own process has met, not by what is there when it is heard.
For the same reason what is wrong excuses nobody who has not met it. What is done about it is in `operator_acts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping


class Evidence:
    """What one process has met since it last got on.

    Damaged or missing records, files that are trampled, plans that came late, sinks put back.
    """

    def __init__(self) -> None:
        self._damaged: set[int] = set()
        """Damaged slots of the newest reading of the log."""
        self._lowest_read = 0
        self._end_of_log = 0
        """The highest slot when that reading began."""
        self._trampled = False
        self._gone_back = False
        self._missing = False
        self.late_plans: dict[int, str] = {}
        """Plans of Spark that it has seen as processes have written them that led no more, by their batches."""
        self._late_at_first: dict[int, str] | None = None
        """Those of its first look."""

    def looked_at_log(self, *, is_whole: bool) -> None:
        """The log was looked at; not `is_whole`: some of its records were away."""
        self._missing = not is_whole

    def read_slot(self, slot: int, *, damaged: bool, end_of_log: int) -> None:
        """A slot of the log was read; `damaged`: it does not hold what was put there, and no record voids it."""
        if slot >= self._lowest_read:  # a reading goes from the end down: this is another one, and what it finds counts
            self._damaged.clear()
            self._end_of_log = end_of_log
        self._lowest_read = slot
        if damaged:
            self._damaged.add(slot)

    def looked_at_spark(self, *, trampled: bool, late_plans: Mapping[int, str]) -> None:
        """Spark's files were looked at; `trampled`: a fenced process has changed some of them."""
        self._trampled = self._trampled or trampled
        self.late_plans.update(late_plans)
        if self._late_at_first is None:
            self._late_at_first = dict(late_plans)

    def looked_at_sink(self, *, gone_back: bool) -> None:
        """A sink has told its newest epoch; `gone_back`: it is not the newest that it has shown."""
        self._gone_back = self._gone_back or gone_back

    def got_on(self) -> None:
        """The process has finished a step, so nothing of what it has met was in its way."""
        self._damaged.clear()
        self.late_plans.clear()
        self._trampled = self._gone_back = self._missing = False

    def has_seen_arrive(self, batch: int) -> bool:
        """Whether a late plan of `batch` has come while the process lived; with an earlier one a start has to deal."""
        late = self.late_plans.get(batch)
        return late is not None and late != (self._late_at_first or {}).get(batch)

    def explains_an_alarm(self, end_of_log: int) -> bool:
        """Whether the process has met something that is a reason to stop; `end_of_log` is the highest slot now.

        Damage is one only while nobody has put a record since: an operator who puts bytes back leaves no trace in the
        log, but whoever goes on leaves a record, and who sees that the log has gone on has to look again.
        """
        met = self._trampled or self._gone_back or self._missing
        return met or (bool(self._damaged) and end_of_log == self._end_of_log)
