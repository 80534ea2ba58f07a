"""The files of a simulated Spark, which nobody makes durable, and how a coordinator sees them.

What Spark itself does with them is in `spark_query.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.world import World
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog

CHECKPOINT = LocalFiles(Path("/simulated"))


class SparkDisk:
    """Spark's files of one checkpoint, over all processes."""

    def __init__(self, world: World, rows: int, *, stateful: bool, overwrites: bool = False) -> None:
        self.world = world
        self.overwrites = overwrites
        """Whether a file that has come in between is written over, as where a rename does that."""
        self.rows = rows
        """How many rows the source has."""
        self.stateful = stateful
        self.files: dict[tuple[str, int], str] = {}
        self.durable: set[tuple[str, int]] = set()
        self.query_id: str | None = None
        self.leader = 0
        """The number of the process that has led last."""
        self.trampled = False
        """Whether a process has changed files after another had taken over: nothing fences Spark's own files."""
        self.came_late = False
        """Whether a file has arrived that a process had begun to write which has gone since."""
        self.backup: dict[tuple[str, int], str] = {}
        """The files as those who led have written them."""
        self._fell_behind = False
        """Whether commits were lost. A second time would ask a stateful query for epochs before those of the first."""
        self._under_way: dict[tuple[str, int], str] = {}
        """Files that arrive right after somebody else has written them."""
        self._late_plans: set[int] = set()
        """The batches whose plan is there as the Spark of a process has written it that led no more."""
        self.states: dict[int, int] = {0: 0}
        """Version -> state; batch N makes version N + 1."""

    def change(self, kind: str, batch: int, text: str | None) -> None:
        """Write a file, or remove it."""
        leads = self._leads()
        self.trampled = self.trampled or not leads
        self._note_plan(kind, batch, is_late=False)
        for files in (self.files, self.backup) if leads else (self.files,):
            if text is None:
                files.pop((kind, batch), None)
            else:
                files[kind, batch] = text

    def _leads(self) -> bool:
        """Whether nobody has led since the process whose turn it is."""
        return self.world.acting is None or self.world.acting.number >= self.leader

    def add(self, kind: str, batch: int, text: str) -> None:
        """Spark itself writes a file: also one that leads no more, and what it writes late is to be put right."""
        trampled = self.trampled
        self.change(kind, batch, text)
        self.trampled = trampled
        self._note_plan(kind, batch, is_late=not self._leads())
        self.durable.discard((kind, batch))
        if late := self._under_way.pop((kind, batch), None):
            self._arrive(kind, batch, late)

    def _note_plan(self, kind: str, batch: int, *, is_late: bool) -> None:
        if kind == "offsets":
            (self._late_plans.add if is_late else self._late_plans.discard)(batch)

    def late_plans(self) -> dict[int, str]:
        """The plans that are there as processes have written them that led no more, by their batches."""
        return {batch: self.files["offsets", batch] for batch in self._late_plans if ("offsets", batch) in self.files}

    def remove_late_plan(self, batch: int) -> None:
        """An operator removes a plan that a forgotten driver has written, unless somebody has put it right."""
        if batch in self.late_plans():
            self.world.tell(f"operator: removes offsets/{batch}, which a forgotten driver has written")
            del self.files["offsets", batch]

    def add_late(self, kind: str, batch: int, text: str) -> None:
        """A process that nobody waits for any more has begun to write a file: it arrives over whatever is there then.

        Some time later, or right after somebody else has written the file.
        """
        awaits_another = self.world.random.random() < 0.5
        if awaits_another:
            self._under_way[kind, batch] = text

        def arrive() -> None:
            if not awaits_another or self._under_way.pop((kind, batch), None) is not None:
                self._arrive(kind, batch, text)

        self.world.later(f"a late {kind}/{batch}", arrive, 10**6 if awaits_another else None)

    def _arrive(self, kind: str, batch: int, text: str) -> None:
        if kind == "commits" and batch + 1 not in self.states:
            # A start looks for the state of a commit before it goes on from it; there are no such files here.
            self.world.tell(f"spark: a late commits/{batch} arrives whose state is gone: no start goes on from it")
            return
        self.world.tell(f"spark: {kind}/{batch} is written by a process that has gone")
        self.files[kind, batch] = text
        self.durable.discard((kind, batch))
        self.came_late = True
        self._note_plan(kind, batch, is_late=True)

    def copied(self) -> SparkDisk:
        """The same files at another place, all of them durable."""
        copy = SparkDisk(self.world, self.rows, stateful=self.stateful, overwrites=self.overwrites)
        copy.files, copy.backup, copy.states = dict(self.files), dict(self.files), dict(self.states)
        copy.durable = set(copy.files)
        copy.query_id, copy.leader, copy._fell_behind = self.query_id, self.leader, self._fell_behind
        copy._late_plans = set(self._late_plans)
        return copy

    def looked_at(self) -> None:
        """The process whose turn it is looks at the files."""
        if self.world.acting is not None:
            self.world.acting.evidence.looked_at_spark(trampled=self.trampled, late_plans=self.late_plans())

    def put_back(self) -> None:
        """An operator restores the files from the leader's backup."""
        self.files, self.trampled = dict(self.backup), False
        self._late_plans.clear()
        self.durable = set(self.files)

    def newest(self, kind: str) -> int | None:
        """The newest batch with a file of that kind."""
        return max((batch for k, batch in self.files if k == kind), default=None)

    def end_of(self, batch: int) -> int:
        """Where a batch ends, by its offsets file."""
        return int(json.loads(self.files["offsets", batch].split("\n")[2])["n"])

    def made_at_ms(self, batch: int) -> int:
        """When a batch was planned, by its offsets file."""
        return int(json.loads(self.files["offsets", batch].split("\n")[1])["batchTimestampMs"])

    def power_cut(self) -> None:
        """Files that were not made durable may be gone, empty or torn."""
        loose = sorted(self.files.keys() - self.durable, key=lambda file: (file[1], file[0] == "commits"))
        if loose and self.world.strikes(Fault.SPARK_LOG_LOST):
            self._lose(loose[self.world.random.randrange(len(loose)) :])
        self._tear_newest_plan()
        newest = self.newest("commits")
        loose_commit = newest is not None and ("commits", newest) not in self.durable
        if loose_commit and self.world.strikes(Fault.SPARK_COMMIT_EMPTY):
            batch = newest or 0
            self.world.tell(f"  commits/{batch} is empty")
            self.files["commits", batch] = ""
            self.states.pop(batch + 1, None)
        self.durable = set(self.files)

    def _tear_newest_plan(self) -> None:
        plan = ("offsets", -1 if (newest := self.newest("offsets")) is None else newest)
        if plan in self.files and plan not in self.durable and self.world.strikes(Fault.SPARK_PLAN_TORN):
            text = self.files[plan]
            self.files[plan] = text[: self.world.random.randrange(len(text))] + "\0" * self.world.random.randrange(2)
            self.world.tell(f"  offsets/{plan[1]} is torn")

    def _lose(self, files: Iterable[tuple[str, int]]) -> None:
        for kind, batch in files:
            self.world.tell(f"  {kind}/{batch} is lost")
            del self.files[kind, batch]
            if kind == "commits":
                self.states.pop(batch + 1, None)

    def lose_several(self, oldest_known: int) -> None:
        """The two newest commits are gone, whatever took them; the log still knows those epochs."""
        commits = sorted(batch for kind, batch in self.files if kind == "commits" and batch >= oldest_known)
        allowed = len(commits) >= 2 and not (self.stateful and self._fell_behind)
        if allowed and self.world.strikes(Fault.SPARK_LOG_BEHIND, f"commits {commits[-2:]}"):
            first, self._fell_behind = commits[-2], True
            others = [("offsets", batch) for kind, batch in self.files if kind == "offsets" and batch >= first]
            self._lose([*(("commits", batch) for batch in commits[-2:]), *self.world.random.choice(([], others))])
        if self.world.strikes(Fault.SPARK_METADATA_LOST):
            self.query_id = None


class SimulatedSparkLog(SparkLog):
    """Spark's log as a coordinator sees it (see `coordinator.spark.query_log.SparkLog`), without a disk."""

    def __init__(self, disk: SparkDisk) -> None:
        super().__init__(CHECKPOINT)
        self.disk = disk

    def query_id(self) -> str | None:
        """See `SparkLog.query_id`."""
        return self.disk.query_id

    def batches(self, kind: str) -> list[int]:
        """See `SparkLog.batches`."""
        self.disk.world.call("spark.list")
        self.disk.looked_at()
        return sorted(batch for k, batch in self.disk.files if k == kind)

    def read(self, kind: str, batch: int) -> str | None:
        """See `SparkLog.read`."""
        self.disk.looked_at()
        return self.disk.files.get((kind, batch))

    def agrees_with_checksum(self, kind: str, batch: int) -> bool:
        """There are no checksum files here."""
        return True

    def make_durable(self, epoch: int) -> None:
        """See `SparkLog.make_durable`."""
        self.disk.world.call("spark.fsync")
        self.disk.durable |= {("offsets", epoch), ("commits", epoch - 1)} & self.disk.files.keys()

    def restore(self, kind: str, batch: int, text: str) -> None:
        """See `SparkLog.restore`."""
        self.disk.world.call("spark.restore")
        self.disk.world.tell(f"spark: {kind}/{batch} is written back")
        self.disk.change(kind, batch, text)
        self.disk.durable.add((kind, batch))

    def restore_metadata(self, query_id: str) -> None:
        """See `SparkLog.restore_metadata`."""
        self.disk.world.call("spark.restore")
        self.disk.query_id = query_id

    def move_aside(self, kind: str, batch: int) -> None:
        """See `SparkLog.move_aside`."""
        self.disk.world.call("spark.move")
        self.disk.world.tell(f"spark: {kind}/{batch} is moved aside")
        self.disk.change(kind, batch, None)
