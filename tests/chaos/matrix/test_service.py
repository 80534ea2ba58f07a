"""The core of the matrix on a service, on the real systems and without a JVM; and mistakes that its checks notice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.chaos.matrix.test_core import SEED, told
from tests.support.kafka_topics import DEADLINE_S, SILENT
from tests.support.processes import eventually
from tpc.chaos.faults import cut_disk
from tpc.chaos.faults.fault import KILL, ZOMBIE, StepFault
from tpc.chaos.matrix.bench import MatrixBench
from tpc.chaos.matrix.case import EPOCH, Case
from tpc.chaos.matrix.case_run import EPOCHS, CaseRun
from tpc.chaos.matrix.cases import service_cases, service_lost_disks, service_power, service_servers
from tpc.chaos.matrix.cases.service_cases import FiringRun
from tpc.chaos.matrix.cases.service_lost_disks import LostDiskRun
from tpc.chaos.matrix.cases.service_power import ServicePowerRun
from tpc.chaos.matrix.cases.service_special import disk_cases, standby_cases
from tpc.chaos.matrix.pipeline import SERVICE
from tpc.chaos.matrix.service_pipeline import ServicePipeline
from tpc.chaos.reports.tally import PASSED, SKIPPED

CORE = [case for case in service_cases.matrix() if case.core]
LOST_DISKS = service_lost_disks.cases()
SPECIAL = [*disk_cases(), *standby_cases(), *service_servers.cases(), *service_power.cases(), *LOST_DISKS]
LAST_EPOCH = EPOCHS - 1
OF_A_SERVICE = {
    "totals in the state",
    "what has not expired in the state on disk",
    "the object that is kept has taken every row once, in their order",
    "the changelog of totals says what its store holds",
    "the changelog of recent says what its store holds",
    "the changelog of ledger says what its store holds",
    "a reader of the state's totals saw them only grow",
    "event time goes no further than what was read",
    "event time goes as far as every partition was read",
    "keys have expired while it ran",
    "only the last epoch can be taken back",
    "every row that is to be called for was, and no other",
    "a call that is made again has the same key, which no other row has",
    "no call was made before its epoch was complete",
}


STANDS_STILL = [
    case for case in service_cases.matrix() if case.fault.kind == ZOMBIE and case.fault.step == "epoch.planned"
]


def test_a_process_that_wakes_up_when_its_states_have_gone_on_ends_fenced(plain_bench: MatrixBench) -> None:
    (case,) = STANDS_STILL
    record = CaseRun(plain_bench, case, SEED).run()
    assert record.outcome == PASSED, told(record)


@pytest.mark.parametrize("case", CORE, ids=[case.name for case in CORE])
def test_the_service_survives(plain_bench: MatrixBench, case: Case) -> None:
    record = CaseRun(plain_bench, case, SEED).run()
    if record.outcome == SKIPPED:
        pytest.skip(record.reason)
    assert record.outcome == PASSED, told(record)
    assert {check.name for check in record.checks} > OF_A_SERVICE
    assert len(record.checks) >= 20
    assert [fault["step"] for fault in record.fired] == [case.fault.step]
    assert (record.pipeline, record.processes) == (SERVICE, "a plain process")


@pytest.mark.parametrize(
    ("mistake", "epoch", "noticed"),
    [
        ("apply_the_state_before_the_intent", EPOCH, ("which nobody disturbed, ended with exit code 1",)),
        ("expire_nothing", EPOCH, ("totals in the state: ", "what has not expired in the state on disk: ")),
        ("expire_a_second_early", EPOCH, ("totals in the state: ",)),
        ("expire_late_after_a_restart", LAST_EPOCH, ("totals in the state: ",)),
        ("keep_the_object_of_before", LAST_EPOCH, ("the object that is kept has taken every row once",)),
        ("call_before_the_epoch_is_complete", EPOCH, ("no call was made before its epoch was complete: ",)),
        ("leave_an_effect_out", EPOCH, ("every row that is to be called for was, and no other: ",)),
        ("log_one_change_less", EPOCH, ("the changelog of totals says what its store holds: ",)),
        (
            "let_event_time_stand",
            EPOCH,
            ("event time goes as far as every partition was read: ", "keys have expired while it ran: "),
        ),
    ],
)
def test_a_case_fails_when_the_library_makes_a_mistake_in_a_service(
    plain_bench: MatrixBench, mistake: str, epoch: int, noticed: tuple[str, ...]
) -> None:
    fault = StepFault("epoch.prepared", KILL, epoch)
    case = Case(mistake, "service", fault, pipeline=SERVICE)
    record = CaseRun(plain_bench, case, SEED, doctor=f"tests.chaos.matrix.doctored:{mistake}").run()
    assert record.outcome != PASSED
    assert [words for words in noticed if words not in record.reason] == [], told(record)


FIRINGS_ALONE = {case.name: case for case in service_cases.firings()}


@pytest.mark.parametrize("name", ["firings/epoch.decided/kill", "firings/epoch.prepared/kill"])
def test_the_service_survives_in_an_epoch_of_firings_alone(plain_bench: MatrixBench, name: str) -> None:
    record = FIRINGS_ALONE[name].run(plain_bench, SEED)
    assert record.outcome == PASSED, told(record)
    assert {check.name for check in record.checks} > OF_A_SERVICE | {
        "the epoch of the fault was made of firings alone",
        "the first epoch has left no event to that of the fault",
        "no row waits, and no timer",
    }


def test_a_timer_that_fires_an_epoch_late_is_noticed(plain_bench: MatrixBench) -> None:
    case = FIRINGS_ALONE["firings/epoch.decided/kill"]
    record = FiringRun(plain_bench, case, SEED, doctor="tests.chaos.matrix.doctored:fire_one_timer_an_epoch_late").run()
    assert record.outcome != PASSED
    for words in (
        "rows in Kafka: ",
        "no half branch: ",
        "the object that is kept has taken every row once",
        "no row waits, and no timer: ",
    ):
        assert words in record.reason, told(record)


def test_a_standby_comes_to_the_end_after_the_process_that_led_is_killed(plain_bench: MatrixBench) -> None:
    case = next(case for case in SPECIAL if case.name == "service/epoch.decided/killed beside a standby")
    record = case.run(plain_bench, SEED)
    assert record.outcome == PASSED, told(record)
    assert len([line for line in record.timeline if "begins" in line["what"]]) == 1, told(record)


class SlowlyWatched(CaseRun):
    """Its readers look so seldom that a life of a service is over between two looks."""

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self.readers = self.kind.readers(self.pipeline)
        for reader in self.readers.followed.values():
            reader.poll_s = 1.5
        with self.readers.watching():
            yield


def test_a_life_that_is_over_between_two_looks_lasts_until_every_reader_has_looked(plain_bench: MatrixBench) -> None:
    case = next(case for case in service_cases.matrix() if case.name == "service/log.stored/reply lost/complete")
    record = SlowlyWatched(plain_bench, case, SEED).run()
    assert record.outcome == PASSED, told(record)
    (looked,) = [check for check in record.checks if check.name == "every reader looked while the case ran"]
    assert all(looked.numbers.values()), told(record)


def test_nothing_of_a_case_is_left_on_the_broker(plain_bench: MatrixBench, tmp_path: Path) -> None:
    direct = plain_bench.direct("left_behind")
    pipeline = ServicePipeline("case-left-behind", tmp_path, direct, direct, "left_behind")
    admin = AdminClient({"bootstrap.servers": direct.servers}, logger=SILENT)

    def there() -> set[str]:
        return admin.list_topics(timeout=DEADLINE_S).topics.keys() & pipeline.topics.keys()

    plain_bench.servers.make(pipeline)
    eventually(lambda: there() == pipeline.topics.keys(), "its topics are made")
    plain_bench.servers.remove(pipeline)
    eventually(lambda: not there(), "its topics are gone")


def test_no_case_of_a_service_is_there_twice_and_each_names_its_pipeline() -> None:
    names = [case.name for case in [*service_cases.matrix(), *service_cases.pairs(), *SPECIAL]]
    assert len(set(names)) == len(names)
    assert all(name.startswith("service/") for name in names)
    assert {case.pipeline for case in SPECIAL} == {SERVICE}


def test_a_bench_without_sessions_is_enough() -> None:
    assert {case.pipeline for case in [*service_cases.matrix(), *service_cases.pairs()]} == {SERVICE}


def test_each_server_ends_at_each_step_that_is_listed() -> None:
    ends = Counter((case.server, case.gently) for case in service_servers.cases())
    assert set(ends) == {("kafka", False), ("postgres", False), ("mongo", False), ("mongo", True)}
    assert set(ends.values()) == {len(service_servers.STEPS)}


@pytest.mark.parametrize(
    "name",
    [
        "service/epoch.decided/PostgreSQL killed",
        "service/epoch.decided/the states' disk is full",
        "service/epoch.decided/killed, and the states' disk is lost",
        "service/sink.committed/power cut of ext4",
    ],
)
def test_the_service_survives_what_is_done_to_its_surroundings(plain_bench: MatrixBench, name: str) -> None:
    record = next(case for case in SPECIAL if case.name == name).run(plain_bench, SEED)
    if record.outcome == SKIPPED:
        pytest.skip(record.reason)
    assert record.outcome == PASSED, told(record)


def test_a_key_that_is_not_made_again_on_an_empty_disk_is_noticed(plain_bench: MatrixBench) -> None:
    case = next(case for case in LOST_DISKS if case.fault.step == "epoch.completed")
    run = LostDiskRun(plain_bench, case, SEED)
    run.drivers.doctor = "tests.chaos.matrix.doctored:make_all_but_one_key_again"
    record = run.run()
    assert record.outcome != PASSED, told(record)
    assert "life 1 ended with exit code" in record.reason or "totals in the state: " in record.reason, told(record)


def test_a_state_that_is_not_synced_is_noticed_after_a_power_cut(plain_bench: MatrixBench) -> None:
    if reason := cut_disk.why_not():
        pytest.skip(reason)
    case = next(case for case in service_power.cases() if case.name == "service/epoch.decided/power cut of ext4")
    run = ServicePowerRun(plain_bench, case, SEED)
    run.drivers.doctor = "tests.chaos.matrix.doctored:sync_no_store"
    record = run.run()
    assert record.outcome != PASSED
    assert not run.kept.passed, told(record)
