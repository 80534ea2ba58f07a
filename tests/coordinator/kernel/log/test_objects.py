"""The log in an object store that refuses, loses answers, overwrites or cannot be reached."""

from __future__ import annotations

import logging
import pickle
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest

import tpc
from tests.support.s3_server import BUCKET, Fault, S3Server, lose_the_answer, lose_the_request, refuse
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.errors import ConfigurationError, PutUnknownError, TpcError, TransientError

SECRETS = ("key-not-to-be-seen", "secret-not-to-be-seen")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server().running() as server:
        yield server


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server, in this process's environment; as it should be again after the test."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    yield server
    server.fault, server.honours_conditions = None, True


@pytest.fixture
def log(s3: S3Server) -> ObjectLog:
    """A log that holds slot 1."""
    log = ObjectLog(f"s3://{BUCKET}", prefix=uuid.uuid4().hex)
    log.put(1, b"one", None)
    return log


# What an answer proves ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "put"),
    [
        (lose_the_answer, True),
        (lose_the_request, False),
        (refuse("503 Slow Down", "SlowDown"), False),
        (refuse("500 Internal Server Error", "InternalError", after_storing=True), True),
        (refuse("408 Request Timeout", "RequestTimeout"), False),
    ],
    ids=["answer lost", "request lost", "503", "500 after storing", "408"],
)
def test_an_answer_that_proves_nothing_leaves_the_put_unknown_and_repeatable(
    log: ObjectLog, s3: S3Server, fault: Fault, put: bool
) -> None:
    s3.fault = fault
    with pytest.raises(PutUnknownError, match=r"slot 2 .* may be durable"):
        log.put(2, b"two", b"one")
    assert log.slots() == ([1, 2] if put else [1])
    assert log.put(2, b"two", b"one")
    assert not log.put(2, b"other", b"one")
    assert log.read(2) == b"two"


@pytest.mark.parametrize(
    ("status", "code"), [("403 Forbidden", "AccessDenied"), ("404 Not Found", "NoSuchBucket"), ("400 Bad", "Malformed")]
)
def test_a_refusal_puts_nothing_for_certain_and_names_no_key(
    log: ObjectLog, s3: S3Server, status: str, code: str
) -> None:
    s3.fault = refuse(status, code)
    with pytest.raises(TransientError, match=f"cannot take slot 2: .*{code}") as caught:
        log.put(2, b"two", b"one")
    assert log.slots() == [1]
    assert_no_secret(caught.value)


def test_a_conflict_with_a_put_under_way_is_settled_by_putting_again(log: ObjectLog, s3: S3Server) -> None:
    s3.fault = refuse("409 Conflict", "ConditionalRequestConflict")
    assert log.put(2, b"two", b"one")
    assert log.read(2) == b"two"


def test_conflicts_without_an_end_leave_the_put_unknown(log: ObjectLog, s3: S3Server) -> None:
    conflict = refuse("409 Conflict", "ConditionalRequestConflict")

    def again(server: S3Server, environ: object, start: object) -> object:
        server.fault = again  # type: ignore[assignment]  # typed looser than `Fault`
        return conflict(server, environ, start)  # type: ignore[arg-type]  # typed looser than `Fault`

    s3.fault = again  # type: ignore[assignment]  # typed looser than `Fault`
    with pytest.raises(PutUnknownError, match="said to be taken, and is empty"):
        log.put(2, b"two", b"one")


def test_a_taken_slot_that_cannot_be_read_may_be_ours(log: ObjectLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(slot: int) -> bytes:
        raise TransientError("the store went away")

    monkeypatch.setattr(log, "read", read)
    with pytest.raises(PutUnknownError, match="by whom is not known"):
        log.put(1, b"one", None)


# Deadlines and reach -----------------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_reached_puts_nothing_for_certain(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{probe.getsockname()[1]}")
    log = ObjectLog(f"s3://{BUCKET}", prefix="orders")
    for call in (lambda: log.put(1, b"one", None), log.slots, lambda: log.read(1), lambda: log.delete([1])):
        with pytest.raises(TransientError, match="HTTP connect error") as caught:
            call()
        assert_no_secret(caught.value)


def test_a_store_that_does_not_answer_is_given_up_in_time(log: ObjectLog, s3: S3Server) -> None:
    impatient = ObjectLog(f"s3://{BUCKET}", prefix=log.prefix, timeout_s=0.5)
    impatient.put(1, b"one", None)

    def sleep(server: S3Server, environ: object, start: object) -> object:
        time.sleep(2)
        return lose_the_request(server, environ, start)  # type: ignore[arg-type]  # typed looser than `Fault`

    s3.fault = sleep  # type: ignore[assignment]  # typed looser than `Fault`
    started = time.monotonic()
    with pytest.raises(PutUnknownError, match="HTTP timeout error"):
        impatient.put(2, b"two", b"one")
    assert time.monotonic() - started < 1.5


@pytest.mark.slow
def test_a_store_object_gets_the_log_s_deadline_and_keeps_its_settings(s3: S3Server) -> None:
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        prefix="deep",
        endpoint=s3.address,
        region="us-east-1",
        access_key_id=SECRETS[0],
        secret_access_key=SECRETS[1],
        client_options={"allow_http": True},
    )
    log = ObjectLog(store, prefix="orders", timeout_s=0.5)
    log.put(1, b"one", None)
    assert ObjectLog(f"s3://{BUCKET}/deep", prefix="orders").read(1) == b"one"
    assert log.describe() == f"S3Store/{BUCKET}/deep/orders"
    s3.fault = lose_the_answer
    with pytest.raises(PutUnknownError):  # a store with retries of its own would have put again
        log.put(2, b"two", b"one")


def test_a_bucket_that_is_not_there_is_no_empty_log(s3: S3Server) -> None:
    with pytest.raises(TransientError, match=r"cannot be listed: .*NoSuchBucket"):
        ObjectLog("s3://nobody-made-it", prefix="orders").slots()


def test_a_read_is_sent_again_after_a_connection_broke(log: ObjectLog, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, answers = obstore.get, []

    def get(*arguments: Any) -> object:
        answers.append(arguments)
        if len(answers) < 3:
            raise obstore.exceptions.GenericError("broken")
        return honest(*arguments)

    monkeypatch.setattr(obstore, "get", get)
    assert log.read(1) == b"one"


# Stores that are none for a log ------------------------------------------------------------------------------------


def test_a_store_that_ignores_the_condition_is_refused_before_the_first_put(s3: S3Server) -> None:
    s3.honours_conditions = False
    log = ObjectLog(f"s3://{BUCKET}", prefix=uuid.uuid4().hex)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="does not honour a conditional put"):
            log.put(1, b"one", None)
    assert log.slots() == []


def test_stores_that_know_no_conditional_put_are_refused_by_name(s3: S3Server) -> None:
    from obstore.store import HTTPStore, S3Store

    web = HTTPStore.from_url("https://me:not-to-be-seen@example.org/x")
    switched_off = S3Store(BUCKET, conditional_put="disabled", client_options={"allow_http": True})
    for store, name in ((web, "HTTPStore"), (switched_off, f"S3Store/{BUCKET}")):
        with pytest.raises(ConfigurationError, match=f"the store at {name}.* does not honour a conditional put"):
            ObjectLog(store, prefix="orders").put(1, b"one", None)


@pytest.mark.parametrize("url", ["https://me:not-to-be-seen@host/x", "file:///tmp", "nonsense"])
def test_a_url_that_leads_to_no_log_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="no log is kept at a URL") as caught:
        ObjectLog(url, prefix="orders").slots()
    assert "not-to-be-seen" not in str(caught.value)


def test_a_local_store_warns_that_it_does_not_fsync(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from obstore.store import LocalStore

    with caplog.at_level(logging.WARNING):
        ObjectLog(LocalStore(tmp_path), prefix="orders").put(1, b"one", None)
    assert "does not fsync" in caplog.text


# Where it is -------------------------------------------------------------------------------------------------------


def test_a_url_of_the_environment_is_resolved_where_it_is_used(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ObjectLog(tpc.env("LOG_URL"), prefix="orders")
    assert repr(log) == "ObjectLog(env('LOG_URL')/orders)"
    with pytest.raises(ConfigurationError, match="LOG_URL is not set"):
        log.put(1, b"one", None)
    monkeypatch.setenv("LOG_URL", f"s3://{BUCKET}/{uuid.uuid4().hex}?token=not-to-be-seen")
    assert log.put(1, b"one", None)
    assert b"not-to-be-seen" not in pickle.dumps(log)
    assert "not-to-be-seen" not in f"{log!r} {log.where(1)}"


def test_other_objects_beside_the_slots_are_left_alone(log: ObjectLog) -> None:
    from obstore.store import from_url

    store = from_url(f"s3://{BUCKET}", client_options={"allow_http": True})
    for name in ("note.txt", "old/00000000000000000009.json", "00000000000000000009.json.bak"):
        obstore.put(store, f"{log.prefix}/{name}", b"mine")
    assert log.slots() == [1]
    log.delete([1])
    assert bytes(obstore.get(store, f"{log.prefix}/note.txt").bytes()) == b"mine"


def assert_no_secret(error: TpcError) -> None:
    assert not any(secret in str(error) for secret in SECRETS)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_pruning_goes_upward_one_slot_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole below which a slot still stands would take the put of a stale coordinator."""
    from obstore.store import MemoryStore

    log, requests, honest = ObjectLog(MemoryStore(), prefix="orders"), [], obstore.delete
    for slot in range(1, 6):
        log.put(slot, b"x", b"x" if slot > 1 else None)

    def delete(store: Any, paths: Any) -> None:
        honest(store, paths)
        requests.append(log.slots())

    monkeypatch.setattr(obstore, "delete", delete)
    log.delete([3, 1, 2])
    assert requests == [[2, 3, 4, 5], [3, 4, 5], [4, 5]]


def test_a_store_in_memory_is_no_place_for_the_log_of_a_pipeline() -> None:
    from obstore.store import MemoryStore

    for place in ("memory:///orders", MemoryStore()):
        with pytest.raises(ConfigurationError, match="in memory, which is gone with its process"):
            ObjectLog(place, prefix="").require_lasting()
    ObjectLog("s3://bucket/orders", prefix="").require_lasting()
