"""The claim check's consumer, and the checks of its program: bodies and references that do not belong together."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from tests.docs.examples import load
from tests.support.stopped_pipeline import stopped
from tpc.chaos.checkers.compare import Check
from tpc.chaos.checkers.files_content import unpublished
from tpc.chaos.checkers.kafka_content import KafkaRecord
from tpc.chaos.programs import claim_check
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Verdict
from tpc.sinks.files.sink import FileSink

JOB = PipelineId("claim-check")


class Bodies:
    """The file sink of the example, in a directory."""

    def __init__(self, place: Path) -> None:
        self.sink = FileSink(str(place / "bodies"), name="bodies")
        self.committer = self.sink.committer(JOB)
        self.committer.identity()

    def prepare(self, epoch: int, **bodies: bytes) -> Committable:
        rows = pa.RecordBatch.from_pylist([{"id": name, "content": body} for name, body in bodies.items()])
        writer = self.sink.writer(Handle(JOB, 1, "bodies", epoch, 0, 0), rows.schema, self.committer.hint())
        writer.write(rows)
        prepared = writer.prepare()
        assert prepared is not None
        return prepared

    def commit(self, prepared: Committable) -> None:
        assert [outcome.verdict for outcome in self.committer.commit([prepared])] == [Verdict.COMMITTED]


@pytest.fixture
def bodies(tmp_path: Path) -> Bodies:
    return Bodies(tmp_path)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("TPC_CHAOS_DIR", str(tmp_path))
    return load("claim_check")


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def test_a_reference_leads_to_its_body_among_those_of_its_epoch(bodies: Bodies, example: ModuleType) -> None:
    bodies.commit(bodies.prepare(0, a=b"old", b=b"other"))
    bodies.commit(bodies.prepare(1, a=b"new"))
    assert example.body("a", digest(b"old"), 0) == b"old"
    assert example.body("a", digest(b"new"), 1) == b"new"
    with pytest.raises(ValueError, match="the body of a is not the one"):
        example.body("a", digest(b"new"), 0)


def test_a_body_that_is_decided_and_not_published_is_waited_for(bodies: Bodies, example: ModuleType) -> None:
    prepared = bodies.prepare(0, a=b"body")
    found: list[bytes] = []
    consumer = threading.Thread(target=lambda: found.append(example.body("a", digest(b"body"), 0)), daemon=True)
    consumer.start()
    consumer.join(0.3)
    assert consumer.is_alive() and not found
    bodies.commit(prepared)
    consumer.join(20)
    assert found == [b"body"]


def test_a_body_that_never_comes_is_an_error_that_says_so(
    bodies: Bodies, example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies.prepare(0, a=b"body")
    monkeypatch.setattr(example, "PATIENCE_S", 0.2)
    with pytest.raises(TimeoutError, match="epoch 0 is decided and its bodies are not published"):
        example.body("a", digest(b"body"), 0)


def failed(place: Path, monkeypatch: pytest.MonkeyPatch, *references: tuple[int, str, bytes]) -> list[str]:
    """The names of the checks that fail when the topic holds these references (epoch, document, body)."""

    def read_topic(_servers: str, topic: str) -> Iterator[KafkaRecord]:
        for offset, (epoch, name, body) in enumerate(references):
            value = json.dumps({"id": name, "length": len(body), "sha256": digest(body)}).encode()
            yield KafkaRecord(topic, 0, offset, name.encode(), value, {"epoch": str(epoch)})

    monkeypatch.setenv("TPC_KAFKA", "unused")
    monkeypatch.setattr(claim_check, "read_topic", read_topic)
    return [check.name for check in claim_check.one_to_one(place) if not check.passed]


def orphans(bodies: Bodies, place: Path) -> Check:
    """What the program's check says of the orphans that were noted before the second life."""
    claim_check.look_for_orphans(2, place)
    return claim_check.orphaned(place)


def test_a_body_whose_epoch_is_not_decided_is_an_orphan_and_is_swept(bodies: Bodies, tmp_path: Path) -> None:
    stopped(tmp_path / "checkpoint", {}, {})  # epochs 0 and 1 are decided
    decided = bodies.prepare(1, a=b"decided")
    assert not orphans(bodies, tmp_path).passed
    orphan = bodies.prepare(2, b=b"B", c=b"C")
    found = orphans(bodies, tmp_path)
    assert found.passed and found.detail == "2 bodies, swept since"
    left = unpublished(tmp_path / "bodies")
    bodies.committer.abort([orphan])
    assert len(left) == 2 and unpublished(tmp_path / "bodies") == [f"{decided.resource}.parquet"]


DANGLING, ORPHANED = "no reference points at nothing", "no body is without a reference"


def test_the_checks_notice_what_dangles_and_what_is_orphaned(
    bodies: Bodies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies.commit(bodies.prepare(0, a=b"A", b=b"B"))
    a, b = (0, "a", b"A"), (0, "b", b"B")
    assert failed(tmp_path, monkeypatch, a, b) == []
    assert failed(tmp_path, monkeypatch, a) == [ORPHANED]
    assert failed(tmp_path, monkeypatch, a, b, (0, "c", b"C")) == [DANGLING]
    assert failed(tmp_path, monkeypatch, a, b, b) == [DANGLING, ORPHANED]
    assert failed(tmp_path, monkeypatch, a, (1, "b", b"B")) == [DANGLING, ORPHANED]
    bodies.prepare(1, c=b"C")
    assert failed(tmp_path, monkeypatch, a, b) == [ORPHANED]
