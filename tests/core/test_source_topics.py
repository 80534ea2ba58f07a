"""Topics of a Kafka source against the record: missing or created again is lost, what is unknown proves nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpc.errors import StateLostError
from tpc.source_options import compared_options
from tpc.source_records import SourceRecord
from tpc.source_topics import Topic, check_topics, partitions_read

IDS = st.dictionaries(st.sampled_from("tuv"), st.sampled_from(["1", "2"]))
FOUND = st.dictionaries(st.sampled_from("tuv"), st.builds(Topic, st.sampled_from(["", "1", "2"]), st.integers(1, 3)))
READ = st.dictionaries(st.sampled_from("tuv"), st.integers(1, 3))


@given(IDS, FOUND, READ)
def test_a_topic_is_read_on_only_where_nothing_says_that_it_is_another(
    ids: dict[str, str], found: dict[str, Topic], read: dict[str, int]
) -> None:
    position = json.dumps({name: {str(n): 5 for n in range(count)} for name, count in read.items()})
    wrong = {name for name in {*ids, *read} if name not in found}
    wrong |= {
        name for name, topic in found.items() if topic.identity and topic.identity != ids.get(name, topic.identity)
    }
    wrong |= {name for name, count in read.items() if name in found and found[name].partitions < count}
    source = SourceRecord("kafka", "pattern .", ids=ids)
    if wrong:
        with pytest.raises(StateLostError) as raised:
            check_topics(source, position, found)
        assert any(f"topic {name!r}" in raised.value.what for name in wrong)
        return
    new = check_topics(source, position, found)
    assert new == {n: topic.identity for n, topic in found.items() if topic.identity and n not in ids}


@pytest.mark.parametrize("position", [None, "-", "", "[]", '"x"', '{"logOffset":3}', "{"])
def test_what_is_no_position_of_kafka_s_names_no_topic(position: str | None) -> None:
    assert partitions_read(position) == {}


def test_each_option_has_its_class_and_nothing_is_kept_of_a_secret() -> None:
    options = {
        "subscribe": "t",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.sasl.jaas.config": "hush",
        "kafka.bootstrap.servers": "somewhere",
        "maxOffsetsPerTrigger": "3",
        "unknown": "hush",
        "apiKey": "hush",
        "url": "hush",
    }
    compared = compared_options("kafka", options)
    assert compared.parsing == {"includeheaders": "true", "kafka.isolation.level": "read_committed"}
    assert compared.identity.keys() == {"unknown"}
    assert "hush" not in repr(compared)
    assert compared == compared_options(
        "kafka", {**options, "maxOffsetsPerTrigger": "4", "kafka.bootstrap.servers": "x"}
    )
    assert compared != compared_options("kafka", {**options, "unknown": "other"})


def test_a_long_value_is_kept_by_its_hash() -> None:
    schema = ", ".join(f"c{n} INT" for n in range(100))
    (kept,) = compared_options("files", {"schema": schema}).parsing.values()
    assert kept.startswith("sha256:")
    assert kept != compared_options("files", {"schema": schema + ", d INT"}).parsing["schema"]
