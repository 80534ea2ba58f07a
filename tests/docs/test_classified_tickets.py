"""The classified tickets with their service: an answer is bought once, and remembered before it is used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.docs.examples import EXAMPLES, load
from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tpc import failpoints
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.programs import classified_tickets
from tpc.chaos.programs.classified_tickets import BUSY, LOST, REFUSED, Classifier, ClassifierServer, is_honoured
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of
from tpc.records import RecordKind

DEADLINE_S = 60
ANSWERS = "CREATE TABLE answers (id bigint PRIMARY KEY, answer text NOT NULL)"
TICKETS = "CREATE TABLE tickets (id bigint, text text, team text, urgent boolean, reference text)"


@pytest.fixture
def service() -> Classifier:
    return Classifier()


@pytest.fixture
def server(service: Classifier) -> Iterator[ClassifierServer]:
    made = ClassifierServer(service)
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def example(
    server: ClassifierServer, postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    """The program, with an empty memory."""
    postgres.execute(ANSWERS)
    monkeypatch.setenv("TPC_CHAOS_DIR", str(tmp_path))
    monkeypatch.setenv("TPC_POSTGRES", postgres.dsn)
    monkeypatch.setenv("CLASSIFIER_API", server.url)
    return load("classified_tickets")


def tickets(*numbers: int | None) -> pa.RecordBatch:
    texts = [f"t{number}" for number in numbers]
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), pa.array(texts)], ["id", "text"])


def answers(example: ModuleType, *numbers: int | None) -> dict[int | None, str | None]:
    """What the rows of one attempt say."""
    [rows] = example.answered(iter([tickets(*numbers)]))
    assert rows["id"].to_pylist() == list(numbers)
    return dict(zip(rows["id"].to_pylist(), rows["answer"].to_pylist(), strict=True))


def remembered(postgres: PostgresDatabase) -> dict[int, str]:
    return dict(postgres.execute("SELECT id, answer FROM answers"))


def test_the_program_and_its_checks_agree_on_calls_at_once(example: ModuleType) -> None:
    assert example.CONCURRENCY == classified_tickets.CONCURRENCY


def test_an_answer_is_bought_at_most_once_and_said_again(
    example: ModuleType, service: Classifier, postgres: PostgresDatabase
) -> None:
    first = answers(example, 1, 2, 1, REFUSED, BUSY)
    assert answers(example, BUSY, REFUSED, 3, 2, 1) == {**first, 3: json.dumps(service.sales[3][0])}
    assert remembered(postgres)[1] == json.dumps(service.sales[1][0]) and first[REFUSED] == "{}"
    assert dict(service.calls) == {1: 1, 2: 1, 3: 1, REFUSED: 1, BUSY: 2}


def test_an_answer_that_was_lost_is_bought_again_unless_the_key_is_honoured(
    example: ModuleType, service: Classifier
) -> None:
    answers(example, LOST, 2 * LOST)
    assert {number: len(sold) for number, sold in service.sales.items()} == {LOST: 2, 2 * LOST: 1}
    assert dict(service.calls) == {LOST: 2, 2 * LOST: 2}


def test_two_attempts_at_one_time_say_the_same(example: ModuleType, server: ClassifierServer) -> None:
    both = threading.Barrier(2)

    def meet(number: int) -> None:
        """Nothing is remembered before both attempts have bought it."""
        if number == 1:
            both.wait(DEADLINE_S)

    server.at_sale = meet
    with ThreadPoolExecutor(2) as attempts:
        one, other = attempts.map(lambda _: answers(example, 1, 3, 5), range(2))
    assert len(server.classifier.sales[1]) == 2, "each has bought it"
    assert one == other


def test_what_was_bought_is_remembered_though_another_call_fails(
    example: ModuleType, service: Classifier, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "DEADLINE_S", 0.0)  # who is busy once is given up
    with pytest.raises(OSError, match="503"):
        answers(example, 1, 2, 3, BUSY, *range(101, 200, 2))
    assert remembered(postgres) == {number: json.dumps(sold[0]) for number, sold in service.sales.items()}
    assert {1, 2, 3} <= service.sales.keys() and len(service.sales) < 40, "after the failure no other call begins"


def test_who_is_not_let_in_fails_and_remembers_nothing(
    example: ModuleType, service: Classifier, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "status", lambda _number, _text: 401)
    with pytest.raises(OSError, match="401"):
        answers(example, 1)
    assert remembered(postgres) == {}


def test_what_is_no_ticket_is_not_bought_and_numbers_stay_what_they_are(
    example: ModuleType, service: Classifier
) -> None:
    large = 2**53
    said = answers(example, 1, None, large, large + 1)
    assert said[None] is None
    assert all(said[number] == json.dumps(service.sales[number][0]) for number in (1, large, large + 1))
    assert dict(service.calls) == {1: 1, large: 1, large + 1: 1}


@pytest.mark.parametrize("body", [b"sorry", b'{"team": "billing"}', b"\0\xff"], ids=["no JSON", "half", "no text"])
def test_an_answer_that_cannot_be_used_is_paid_for_once_too(
    example: ModuleType, server: ClassifierServer, postgres: PostgresDatabase, body: bytes
) -> None:
    server.says = body
    first = answers(example, 1)
    assert answers(example, 1) == first == remembered(postgres)
    assert len(server.classifier.sales[1]) == 1


def test_a_key_that_is_being_answered_is_asked_for_again(
    example: ModuleType, service: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = service.status

    def under_way(number: int, text: str) -> int:
        said = status(number, text)
        return 409 if service.calls[number] == 1 else said

    monkeypatch.setattr(service, "status", under_way)
    answers(example, 1)
    assert (service.calls[1], len(service.sales[1])) == (2, 1)


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
import pyarrow as pa
from classified_tickets import answered
numbers = [int(number) for number in sys.argv[2:]]
texts = [f"t{number}" for number in numbers]
list(answered(iter([pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), pa.array(texts)], ["id", "text"])])))
"""


def test_a_process_that_is_killed_within_calls_has_them_alone_bought_again(
    example: ModuleType, server: ClassifierServer, postgres: PostgresDatabase
) -> None:
    numbers = [number for number in range(1, 100) if number % LOST]
    victim: list[subprocess.Popen[bytes]] = []
    begun, lock = 0, threading.Lock()

    def kill(_number: int) -> None:
        nonlocal begun
        with lock:
            begun += 1
            if begun == 30:
                victim[0].kill()
        if begun >= 30:
            victim[0].wait(DEADLINE_S)

    server.at_sale = kill
    command = [sys.executable, "-c", KILLED, str(EXAMPLES), *map(str, numbers)]
    victim.append(subprocess.Popen(command, env=dict(os.environ)))
    assert victim[0].wait(DEADLINE_S) == -signal.SIGKILL
    server.at_sale = lambda _number: None
    before = remembered(postgres)
    under_way = server.classifier.sales.keys() - before.keys()
    assert before and 0 < len(under_way) <= example.CONCURRENCY
    after = answers(example, *numbers)
    assert before.items() <= after.items()
    again = {number for number, sold in server.classifier.sales.items() if len(sold) > 1}
    assert again == {number for number in under_way if not is_honoured(number)}


class DeadError(Exception):
    """What the driver dies of."""


def test_the_rows_of_a_repaired_epoch_are_those_that_were_decided(
    spark: SparkSession,
    kafka: KafkaTopics,
    postgres: PostgresDatabase,
    example: ModuleType,
    service: Classifier,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table's branch is lost after the decision, the topic's is not: the whole epoch is computed once more."""
    postgres.execute(TICKETS)
    topic, urgent, unclassified = kafka.topic(partitions=1), kafka.topic(), kafka.topic()
    sent = [json.dumps({"id": number, "text": f"t{number}"}) for number in range(60)]
    kafka.produce(topic, [("k", message) for message in [*sent, "no ticket", '{"id": 61}']])
    monkeypatch.setenv("TPC_KAFKA", kafka.bootstrap)
    for variable in ("TPC_POSTGRES", "CLASSIFIER_API"):  # workers of the run's session know no test's environment
        monkeypatch.setitem(spark.sparkContext.environment, variable, os.environ[variable])
    monkeypatch.setattr(example, "spark_session", lambda *_name, **_settings: spark)
    monkeypatch.setattr(example, "KAFKA", kafka.bootstrap)
    for name, value in (("TOPIC", topic), ("URGENT_TOPIC", urgent), ("UNCLASSIFIED_TOPIC", unclassified)):
        monkeypatch.setattr(example, name, value)
    first = example.pipeline()
    failpoints.install({"epoch.decided": _lose(first.sinks[0].committer(first.id))})
    try:
        with pytest.raises(DeadError):
            first.start(trigger={"availableNow": True}).awaitTermination(DEADLINE_S)
    finally:
        failpoints.install({})
    example.pipeline().start(trigger={"availableNow": True}).awaitTermination(DEADLINE_S)
    records = list(Journal(log_of(tmp_path / "checkpoint")).records())
    assert sum(one.kind is RecordKind.REPAIR for one in records) == 1
    said = {number: json.loads(answer) for number, answer in remembered(postgres).items()}
    table = {number: rest for number, *rest in postgres.execute("SELECT id, team, urgent, reference FROM tickets")}
    assert table == {number: list(one.values()) for number, one in said.items() if one}
    refused = [json.loads(record.value or b"") for record in read_topic(kafka.bootstrap, unclassified)]
    assert {row["text"] for row in refused if row.get("id") is None} == {"no ticket", '{"id": 61}'}
    assert service.calls.keys() == set(range(60))
    assert all(len(sold) == 1 + (number % LOST == 0 and number % 2) for number, sold in service.sales.items())


def _lose(committer: object) -> Callable[[str, Mapping[str, object]], None]:
    """At the decision every prepared branch of the sink is taken from its system, and the driver dies."""

    def act(_step: str, _where: Mapping[str, object]) -> None:
        committer.abort(committer.in_doubt())  # type: ignore[attr-defined]
        committer.close()  # type: ignore[attr-defined]
        raise DeadError

    return act
