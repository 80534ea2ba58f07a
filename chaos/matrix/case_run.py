"""Runs one case: lives of the driver, each with the fault that is its own, until one reads its input to the end.

A case has failed when a fault of it was not made, or not at its place, or not while a branch was prepared; when a
driver hangs, or the one that nobody disturbs does not come to the end; when a zombie ends as if nothing had been; or
when a check is red.
"""

from __future__ import annotations

import shutil
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import hits, injector
from tpc.chaos.faults.fault import KILL_DRIVER, ZOMBIE, StepFault
from tpc.chaos.matrix.bench import MatrixBench, ServerLogs
from tpc.chaos.matrix.case import Case, CaseFailedError
from tpc.chaos.matrix.drivers import Drivers
from tpc.chaos.matrix.evidence import Evidence
from tpc.chaos.matrix.judging import Judge, Readers
from tpc.chaos.matrix.pipeline import FIRINGS, ROWS_PER_EPOCH, SERVICE, SPARK, PipelineUnderTest, RowFeed
from tpc.chaos.matrix.records import MENDED, CaseRecord
from tpc.chaos.matrix.service_judging import FiringJudge, ServiceJudge, ServiceReaders
from tpc.chaos.matrix.service_pipeline import FiringPipeline, ServicePipeline
from tpc.chaos.matrix.set_ups import NotSetUpError, never_made, setting_up
from tpc.chaos.matrix.spark_pipeline import SparkPipeline
from tpc.chaos.proxy import Action, Fired, Proxy, Rule
from tpc.chaos.reports.tally import PASSED, SKIPPED
from tpc.chaos.runner.ends import ENDED_BY_ERROR, FENCED
from tpc.chaos.running.owned_processes import read_from
from tpc.support.deadlines import Deadline

EPOCHS = 3
RECOVERY_BOUND_S = 60.0
"""The least; a machine that has shown that it needs longer is given longer."""
RESTARTS = 2
"""How often a supervisor's restart may be needed: a system is slow, or another driver's task in the way."""
UNDECIDED = ("epoch.planned", "epoch.collected", "epoch.prepared")
"""Steps at which a process that stands still has an epoch that is not decided: its successor decides another one."""
LOG_CHARACTERS = 6000


class CaseRun:
    """One case on one test bench, in a directory of its own."""

    recovery_bound_s = RECOVERY_BOUND_S
    hopeless_lives = 0
    """How many lives after the last fault cannot come to anything, since what it broke is not repaired yet."""

    def __init__(self, bench: MatrixBench, case: Case, seed: int, *, doctor: str | None = None) -> None:
        self.bench = bench
        self.case = case
        self.kind = KINDS[case.pipeline]
        number = zlib.crc32(f"{seed}:{case.name}".encode())
        name = f"case-{number:08x}-{time.time_ns() // 1000 % 10**11}"
        self.directory = bench.directory / "cases" / name
        self.pipeline = self._make_pipeline(name)
        self.feed = RowFeed(number)
        self.record = CaseRecord(
            case.name,
            case.suite,
            case.fault.step,
            case.fault.kind,
            case.fault.sink,
            number,
            second=None if case.second is None else case.second.to_json(),
            pipeline=case.pipeline,
            processes=self.kind.processes,
            counts=case.counts,
        )
        self.drivers = Drivers(self.pipeline, bench.sessions, self.record, doctor=doctor)
        self.lost_replies = LostReplies(self.directory, bench.proxies, self.pipeline.name)
        self.looks = Looks(self.directory)

    # The whole -------------------------------------------------------------------------------------------------

    def run(self) -> CaseRecord:
        """The record of the case. Never raises for what the case does; no process of it is left."""
        record, began_at = self.record, time.monotonic()
        if missing := {f.lost.server for f in self.case.faults if f.lost is not None} - self.bench.proxies.keys():
            record.outcome, record.reason = SKIPPED, f"there is no proxy in front of {', '.join(sorted(missing))}"
            return record
        self.directory.mkdir(parents=True)
        server_logs = self.bench.server_logs()
        try:
            self._carry_out()
            record.outcome = PASSED
        except CaseFailedError as failure:
            record.reason = str(failure)
            record.not_set_up = isinstance(failure, NotSetUpError)
        except Exception as error:  # noqa: BLE001  a run of cases goes on; the record tells
            record.reason = f"the case could not be run: {type(error).__name__}: {error}"
        finally:
            if record.outcome != PASSED:
                self._keep(server_logs)
            self._end()
        record.seconds = round(time.monotonic() - began_at, 3)
        log = read_from(self.drivers.log, 0)
        record.log, record.mended = log[-LOG_CHARACTERS:], [told for told in MENDED if told in log]
        if record.outcome == PASSED:
            shutil.rmtree(self.directory, ignore_errors=True)
        return record

    def _make_pipeline(self, name: str) -> PipelineUnderTest:
        """The pipeline of the case."""
        direct = self.bench.direct(name)
        return self.kind.pipeline(
            name, self.directory, direct, self.bench.proxied(name) if self.case.proxied else direct, name
        )

    def _carry_out(self) -> None:
        with setting_up():
            self._prepare()
        try:
            with self._watching():
                self._strike()
                self._recover()
                self._end_zombies()
        finally:
            self._tell()
        self.evidence.require_faults()
        self.record.checks = self._judge()
        began_at = [life.began_at for life in self.drivers.lives]
        bound_s = self.evidence.recovery_bound_s(began_at, least_s=self.recovery_bound_s)
        self.record.recovery_s, in_time = self.evidence.recovery(
            began_at, bound_s=bound_s, hopeless_lives=self.hopeless_lives
        )
        self.record.checks.append(in_time)
        if red := [check for check in self.record.checks if not check.passed]:
            raise CaseFailedError("; ".join(f"{check.name}: {check.detail}" for check in red))

    def _prepare(self) -> None:
        """What the pipeline reads and writes is there before its first life."""
        self.bench.servers.make(self.pipeline)
        self.bench.servers.feed(self.pipeline, self.feed.rows(EPOCHS * ROWS_PER_EPOCH))

    def _watching(self) -> AbstractContextManager[None]:
        """Concurrent readers, while drivers live."""
        self.readers = self.kind.readers(self.pipeline)
        return self.readers.watching()

    def _judge(self) -> list[Check]:
        return self.kind.judge(self.pipeline, self.feed.fed, self.readers, self.disturbed).checks()

    @property
    def disturbed(self) -> tuple[float, float]:
        """From the first fault to the end of the last life, in seconds since 1970."""
        return self.evidence.disturbed(life.ended_at for life in self.drivers.lives)

    def _end(self) -> None:
        """Nothing of the case is left: no process, no rule, no topic, no database."""
        self.drivers.end()
        self.lost_replies.end()
        self.bench.tidy()
        with suppress(Exception):  # a server that does not answer has made the case fail already
            self.bench.servers.remove(self.pipeline)

    def _keep(self, server_logs: ServerLogs) -> None:
        try:
            server_logs.keep(self.directory / "servers")
        except OSError as error:
            self.record.note(f"the servers' logs could not be kept: {error}", time.time())

    # Lives -----------------------------------------------------------------------------------------------------

    def _strike(self) -> None:
        """The lives that faults are made in."""
        for number, fault in enumerate(self.case.faults):
            life = self.drivers.begin({number: fault})
            stopped = self.drivers.wait(life, stoppable=fault.kind == ZOMBIE, meanwhile=self._meanwhile)
            if self.pipeline.is_brief and life.exit_code != 0:
                self.looks.finish(self.readers)
            if number not in injector.fired(self.directory):
                end = f"life {life.number} ended with exit code {life.exit_code}"
                what = f"the fault was never made: {fault.kind} at {fault.step}; {end} without it"
                raise never_made(what, read_from(self.drivers.log, 0), is_first=number == 0)
            if not stopped and life.exit_code == 0 and number + 1 < len(self.case.faults):
                raise CaseFailedError(f"life {life.number} came to its end before the next fault could strike")

    def _recover(self) -> None:
        """Lives without a fault until one comes to the end; another one only after an error, as a supervisor would."""
        last = self.drivers.until_end(RESTARTS, only_after=(ENDED_BY_ERROR,))
        if last.exit_code != 0:
            raise CaseFailedError(f"life {last.number}, which nobody disturbed, ended with exit code {last.exit_code}")

    def _end_zombies(self) -> None:
        """Let stopped drivers go on: they must end fenced or with an error, or with no step that they still took.

        One of a service whose epoch is not decided must end fenced. Then a life on new rows tidies up.
        """
        if not self._disturbed_by_others:
            return
        for zombie in self.drivers.stopped:
            went_on_at = time.time()
            self.drivers.go_on(zombie, [int(fault["pid"]) for fault in injector.fired(self.directory).values()])
            self.drivers.wait(zombie)
            steps = [hit.step for hit in self._recorded().hits if hit.life == zombie.number and hit.at > went_on_at]
            if zombie.exit_code == 0 and steps:
                raise CaseFailedError(
                    f"the zombie, life {zombie.number}, ended as if nobody had taken over, after {', '.join(steps)}"
                )
            if self._must_be_fenced and zombie.exit_code != FENCED:
                code = zombie.exit_code
                raise CaseFailedError(f"the zombie, life {zombie.number}, ended with {code}, not fenced ({FENCED})")
        self.bench.tidy()  # the tasks of a dead driver end with their executor, sooner or later
        self.bench.servers.feed(self.pipeline, self.feed.rows(ROWS_PER_EPOCH))
        last = self.drivers.run()
        if last.exit_code != 0:
            raise CaseFailedError(f"the last life, {last.number}, ended with exit code {last.exit_code}")

    @property
    def _must_be_fenced(self) -> bool:
        """Whether a zombie has an epoch that it cannot decide any more, and no Spark that could end it before."""
        return self.pipeline.is_brief and any(fault.step in UNDECIDED for fault in self.case.faults)

    @property
    def _disturbed_by_others(self) -> bool:
        """Whether tasks or a driver of an earlier life may still be at work."""
        return any(fault.kind in (ZOMBIE, KILL_DRIVER) for fault in self.case.faults)

    def _meanwhile(self) -> None:
        """What is done again and again while a life is waited for that a fault strikes."""
        self._arm()
        if self.pipeline.is_brief:
            self.looks.take(self.readers)

    def _arm(self) -> None:
        """What must be done while a process waits at its fault's step."""
        self.lost_replies.arm(self.case.faults)

    # What is written down --------------------------------------------------------------------------------------

    def _recorded(self) -> Evidence:
        """What is on record up to now."""
        return Evidence(
            self.case,
            injector.fired(self.directory),
            hits.read(self.directory / injector.HITS_FILE),
            injector.waits_in_vain(self.directory),
        )

    def _tell(self) -> None:
        evidence, record = self._recorded(), self.record
        self.evidence = evidence
        record.fired = evidence.fired
        record.epoch = evidence.epoch
        for number, fault in evidence.made.items():
            what = "to recover from" if number < evidence.first else "the fault"
            record.note(f"{what}: {fault['fault']} at {fault['step']}, {fault['prepared']} prepared", fault["at"])
        for hit in evidence.hits:
            if hit.step in ("recovery.claimed", "epoch.decided", "epoch.completed"):
                place = ", ".join(f"{name} {value}" for name, value in hit.where.items())
                record.note(f"life {hit.life}: {hit.step} ({place})", hit.at)


# The pipelines that faults are tried on, each with those who watch it and judge it.


@dataclass(frozen=True)
class Kind:
    """One kind of pipeline."""

    pipeline: type[PipelineUnderTest]
    readers: type[Readers]
    judge: type[Judge]
    processes: str
    """What its drivers run in, for the record."""


KINDS: Mapping[str, Kind] = {
    SPARK: Kind(SparkPipeline, Readers, Judge, "shared session"),
    SERVICE: Kind(ServicePipeline, ServiceReaders, ServiceJudge, "a plain process"),
    FIRINGS: Kind(FiringPipeline, ServiceReaders, FiringJudge, "a plain process"),
}


# Lets a disturbance last until every reader has had a look at it, where lives are shorter than a reader's pause.
#
# A process that has survived its fault waits at the next step that it reaches; one that has not is not followed at
# once. The fault is made by then, and nothing of it is undone meanwhile. Readers that do not come in time are not
# waited for any longer: then they are no evidence, and the check on them says so.

WITHIN_S = 8.0
"""How long readers are waited for after a fault: longer than one waits for an answer."""


class Looks:
    """Those at the faults of one case, which are recorded in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._deadlines: dict[int, Deadline] = {}
        """Until when the faults that were made are looked at, by their number."""

    def take(self, readers: Readers) -> bool:
        """Let those go on whose faults were looked at, or long enough; whether that is all of them."""
        for number, fault in injector.fired(self.directory).items():
            looked = injector.looked_file(self.directory, number)
            deadline = self._deadlines.setdefault(number, Deadline(WITHIN_S))
            if not looked.exists() and (readers.have_looked_since(fault["at"]) or deadline.passed):
                looked.touch()
        return all(injector.looked_file(self.directory, number).exists() for number in self._deadlines)

    def finish(self, readers: Readers) -> None:
        """Wait until all that were made were looked at, or long enough."""
        injector.wait_until(lambda: self.take(readers), WITHIN_S)


# The replies that a proxy loses for a case: each is armed when the process at the fault's step has begun to wait.


class LostReplies:
    """Those of one case, whose faults are recorded in `directory`. `pipeline` is the name in the requests."""

    def __init__(self, directory: Path, proxies: Mapping[str, Proxy], pipeline: str) -> None:
        self.directory = directory
        self.proxies = proxies
        self.pipeline = pipeline
        self.rules: dict[int, tuple[str, Rule]] = {}
        """The rules that were made, by the number of the fault, each with the server whose proxy has it."""

    def arm(self, faults: Sequence[StepFault]) -> None:
        """Have the replies lost that processes wait for by now."""
        for number, fault, _ in injector.waiting(self.directory, faults):
            if (lost := fault.lost) is None:
                continue
            matching = lost.matching.replace("{pipeline}", f"tpc~{self.pipeline}~")
            on_fired = partial(self._record, number)
            rule = Rule(Action.LOSE_REPLY_AND_RESET, lost.kind, matching=matching, on_fired=on_fired)
            self.rules[number] = (lost.server, self.proxies[lost.server].add(rule))
            injector.armed_file(self.directory, number).touch()

    def end(self) -> None:
        """No reply is lost any more."""
        for server, rule in self.rules.values():
            self.proxies[server].remove(rule)

    def _record(self, number: int, made: Fired) -> None:
        injector.record_made(self.directory, number, made.at, made.request.detail)
