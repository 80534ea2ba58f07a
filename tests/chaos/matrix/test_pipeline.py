"""The rows that a case is fed, and what the representations of a pipeline keep to themselves."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

from tests.chaos.matrix.nowhere import pipeline_nowhere
from tpc.chaos.matrix.pipeline import PARTITIONS, Addresses, PipelineUnderTest, RowFeed
from tpc.chaos.matrix.powered import FILES, powered


def test_the_same_seed_feeds_the_same_rows() -> None:
    feeds = [RowFeed(seed).rows(60) for seed in (1, 1, 2)]
    assert feeds[0] == feeds[1] != feeds[2]


def test_every_partition_gets_as_many_rows() -> None:
    assert set(Counter(row.source for row in RowFeed(1).rows(60)).values()) == {60 // PARTITIONS}


def test_the_sequence_of_a_key_grows_by_one_and_a_key_stays_in_its_partition() -> None:
    feed = RowFeed(1)
    feed.rows(40)
    feed.rows(20)
    assert [row.id for row in feed.fed] == list(range(60))
    for key in {row.key for row in feed.fed}:
        rows = [row for row in feed.fed if row.key == key]
        assert [row.seq for row in rows] == list(range(len(rows)))
        assert len({row.source for row in rows}) == 1


def test_a_pipeline_travels_to_another_process_and_shows_no_password() -> None:
    secret = Addresses("localhost:1", "postgresql://u:hunter2@localhost/d", "mongodb://u:hunter2@localhost")
    pipeline = PipelineUnderTest("name", Path("somewhere"), secret, secret, "name")
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline
    assert "hunter2" not in repr(pipeline)


def test_a_pipeline_whose_power_is_cut_has_the_places_of_the_other(tmp_path: Path) -> None:
    other = pipeline_nowhere(tmp_path)
    made = powered(other, FILES)
    assert (made.name, made.directory, made.proxied, made.shape) == (other.name, tmp_path, other.proxied, FILES)
