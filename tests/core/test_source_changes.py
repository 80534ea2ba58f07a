"""What a pipeline reads is compared with the record: a model of Spark's positions, and each refusal by name."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.builders import generation_body, intent, manifest, records
from tpc.errors import ConfigurationError, SourcesChangedError
from tpc.fold import fold
from tpc.records import RecordKind
from tpc.source_changes import check_inputs, check_named, recorded_order, require_distinct
from tpc.source_records import (
    InputRecord,
    Inputs,
    SourceRecord,
    inputs_from_json,
    inputs_to_json,
    sources_of,
    with_ids,
)

JOB = "job#1"


def files(place: str, **more: object) -> SourceRecord:
    return replace(SourceRecord("files", place), **more)  # type: ignore[arg-type]


def write(*sources: SourceRecord, to: str = "a", name: str = "") -> InputRecord:
    return InputRecord(name, tuple(to.split(",")), sources)


# A model: positions by number, as Spark keeps them ------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> list[InputRecord]:
    """Writes over few places into few sinks, some named, each with sources of its own; some share a DataFrame."""
    made, reader = list[InputRecord](), 0
    for number in range(draw(st.integers(1, 4))):
        sources = []
        for _ in range(draw(st.integers(1, 2))):
            known = sources_of(made)
            if known and draw(st.integers(0, 4)) == 0:
                sources.append(draw(st.sampled_from(known)))
                continue
            sources.append(SourceRecord("files", draw(st.sampled_from("xy")), reader=reader))
            reader += 1
        sinks = draw(st.sampled_from([["a"], ["b"], ["a", "b"]]))
        made.append(InputRecord(draw(st.sampled_from(["", "", f"n{number}"])), tuple(sinks), tuple(sources)))
    return made


def numbered(inputs: Sequence[InputRecord]) -> Inputs:
    """With readers numbered as Spark does: by their first place in the plan."""
    numbers: dict[int, int] = {}
    return tuple(
        replace(
            each,
            sources=tuple(replace(s, reader=numbers.setdefault(s.reader, len(numbers))) for s in each.sources),
        )
        for each in inputs
    )


@given(programs(), st.randoms(use_true_random=False), st.booleans())
def test_a_program_whose_lines_changed_places_goes_on_at_its_own_positions_or_is_refused(
    program: list[InputRecord], random: object, stateful: bool
) -> None:
    try:
        require_distinct(tuple(program), JOB, stateful=stateful)
    except ConfigurationError:
        return
    recorded = numbered(program)
    lines = list(range(len(program)))
    random.shuffle(lines)  # type: ignore[attr-defined]
    moved = [program[line] for line in lines]
    require_distinct(tuple(moved), JOB, stateful=stateful)
    order = recorded_order(recorded, numbered(moved), JOB, stateful=stateful)
    planned = [moved[number] for number in order]
    check_inputs(recorded, numbered(planned), JOB)
    for place, line in enumerate(lines[number] for number in order):
        same_reader = [s.reader for s in program[line].sources] == [s.reader for s in program[place].sources]
        assert line == place or (same_reader and not stateful)


@given(programs(), st.data())
def test_another_place_or_kind_is_refused_wherever_it_stands_and_however_the_lines_are_moved(
    program: list[InputRecord], data: st.DataObject
) -> None:
    recorded = numbered(program)
    changed = data.draw(st.integers(0, len(program) - 1))
    more = data.draw(st.sampled_from([{"place": "new"}, {"kind": "kafka"}, {"identity": {"pathglobfilter": "b*"}}]))
    one = program[changed]
    program[changed] = replace(one, sources=(replace(one.sources[0], **more), *one.sources[1:]))  # type: ignore[arg-type]
    moved = data.draw(st.permutations(program))
    try:
        require_distinct(tuple(moved), JOB, stateful=False)
        order = recorded_order(recorded, numbered(moved), JOB, stateful=False)
    except ConfigurationError:
        return
    with pytest.raises(SourcesChangedError):
        check_inputs(recorded, numbered([moved[number] for number in order]), JOB)


@given(programs(), st.data())
def test_a_source_more_or_less_is_refused(program: list[InputRecord], data: st.DataObject) -> None:
    recorded = numbered(program)
    changed = (
        [each for n, each in enumerate(program) if n] if data.draw(st.booleans()) else [*program, write(files("x"))]
    )
    order = recorded_order(recorded, numbered(changed), JOB, stateful=False)
    with pytest.raises(SourcesChangedError, match="on record"):
        check_inputs(recorded, numbered([changed[number] for number in order]), JOB)


@given(programs(), st.dictionaries(st.integers(0, 7), st.dictionaries(st.sampled_from("tu"), st.sampled_from("12"))))
def test_what_is_on_record_is_read_back_and_ids_are_only_added(
    program: list[InputRecord], ids: dict[int, dict[str, str]]
) -> None:
    inputs = with_ids(tuple(program), ids)
    assert inputs_from_json(inputs_to_json(inputs)) == inputs
    assert with_ids(inputs, {n: dict.fromkeys(each, "other") for n, each in ids.items()}) == inputs
    assert [dict(s.ids) for s in sources_of(inputs)] == [ids.get(n, {}) for n in range(len(sources_of(inputs)))]


# Each by name --------------------------------------------------------------------------------------------------------

ORDERS, PAYMENTS = write(files("orders")), write(files("payments", reader=1), to="b")


def test_two_writes_are_put_back_into_the_order_on_record_by_what_they_read() -> None:
    assert recorded_order((ORDERS, PAYMENTS), (PAYMENTS, ORDERS), JOB, stateful=False) == [1, 0]


def test_two_reads_of_one_place_are_known_by_their_sinks_or_their_names() -> None:
    fast, slow = write(files("t"), to="fast"), write(files("t", reader=1), to="slow")
    assert recorded_order((fast, slow), (slow, fast), JOB, stateful=True) == [1, 0]
    one, other = (replace(each, sinks=("a",), name=name) for each, name in ((fast, "fast"), (slow, "slow")))
    assert recorded_order((one, other), (other, one), JOB, stateful=True) == [1, 0]
    require_distinct((one, other), JOB, stateful=True)


def test_writes_that_exchange_their_sinks_go_on_at_the_positions_of_what_they_read() -> None:
    exchanged = write(files("payments"), to="a"), write(files("orders", reader=1), to="b")
    assert recorded_order((ORDERS, PAYMENTS), exchanged, JOB, stateful=False) == [1, 0]


def test_two_reads_of_one_place_into_the_same_sink_need_names() -> None:
    twice = write(files("t")), write(files("t", reader=1))
    with pytest.raises(ConfigurationError, match="cannot be distinguished") as raised:
        require_distinct(twice, JOB, stateful=False)
    assert 'name="..."' in raised.value.remedy
    shared = write(files("t")), write(files("t"))
    require_distinct(shared, JOB, stateful=False)
    with pytest.raises(ConfigurationError, match="cannot be distinguished"):
        require_distinct(shared, JOB, stateful=True)
    with pytest.raises(ConfigurationError, match="two writes have the name 'n'"):
        require_distinct((write(files("t"), name="n"), write(files("u"), name="n")), JOB, stateful=False)


def test_names_and_sinks_that_all_change_at_once_are_ambiguous() -> None:
    before = write(files("t"), name="m"), write(files("t", reader=1), name="n")
    after = write(files("t"), name="v"), write(files("t", reader=1), name="w")
    with pytest.raises(ConfigurationError, match="cannot be distinguished") as raised:
        recorded_order(before, after, JOB, stateful=False)
    assert "the names and sinks that they had" in raised.value.remedy


@given(programs(), st.randoms(use_true_random=False), st.booleans())
def test_writes_that_gain_a_sink_are_known_by_those_that_they_had(
    program: list[InputRecord], random: object, stateful: bool
) -> None:
    """Each of them a sink of its own. They have no names, and nothing in common but what they read."""
    program = [replace(each, name="", sinks=(f"old{n}",)) for n, each in enumerate(program)]
    lines = list(range(len(program)))
    random.shuffle(lines)  # type: ignore[attr-defined]
    moved = [replace(program[line], sinks=(f"new{line}", f"old{line}")) for line in lines]
    order = recorded_order(numbered(program), numbered(moved), JOB, stateful=stateful)
    assert [lines[number] for number in order] == list(range(len(program)))


def test_a_write_with_the_sinks_of_two_is_neither() -> None:
    before = write(files("t")), write(files("t", reader=1), to="b")
    after = write(files("t"), to="a,b"), write(files("t", reader=1), to="c")
    with pytest.raises(ConfigurationError, match="cannot be distinguished"):
        recorded_order(before, after, JOB, stateful=False)


def test_of_writes_with_states_it_is_said_that_these_would_be_exchanged() -> None:
    shared = write(files("t")), write(files("t"))
    with pytest.raises(ConfigurationError, match="the position and the state of the other") as raised:
        require_distinct(shared, JOB, stateful=True)
    assert "read the source once" not in raised.value.remedy, "they do"


@pytest.mark.parametrize(
    ("after", "remedy"),
    [
        ((ORDERS,), r'a condition that takes none of them: \.to\(sink, where="false"\)'),
        ((ORDERS, PAYMENTS, write(files("orders"), to="c")), r"add them to its write"),
        ((ORDERS, PAYMENTS, write(files("new", reader=2), to="c")), "in a pipeline of its own"),
    ],
    ids=["one less", "the same once more", "another one"],
)
def test_another_number_of_sources_is_refused_with_what_can_be_done_instead(after: Inputs, remedy: str) -> None:
    with pytest.raises(SourcesChangedError) as raised:
        check_inputs((ORDERS, PAYMENTS), after, JOB)
    assert re.search(remedy, raised.value.remedy)


@pytest.mark.parametrize(
    ("place", "gone"),
    [
        ("topics t", "u"),
        ("topics t, u, v", None),
        ("topics v", "t"),
        ('partitions {"t": [0]}', "u"),
        ('partitions {"t": [0], "u": [0]}', None),
        ("pattern t|v", "u"),
        ("pattern [tu]", None),
        ("pattern .", None),
        (r"pattern \p{Lower}", None),
    ],
)
def test_a_topic_that_was_read_cannot_be_left_out_and_one_more_can_be_accepted(place: str, gone: str | None) -> None:
    before = (write(SourceRecord("kafka", "topics t, u", ids={"t": "1", "u": "2"})),)
    with pytest.raises(SourcesChangedError) as raised:
        check_inputs(before, (write(SourceRecord("kafka", place)),), JOB)
    assert raised.value.details.get("acceptable", True) == (gone is None)
    if gone is not None:
        assert f"topic '{gone}' was read" in raised.value.what
        assert f"topic != '{gone}'" in raised.value.remedy
    never_read = (write(SourceRecord("kafka", "topics x, u", ids={})),)
    with pytest.raises(SourcesChangedError, match="was kafka topics x, u") as raised:
        check_inputs(never_read, (write(SourceRecord("kafka", place)),), JOB)
    assert raised.value.details.get("acceptable", True)


def test_a_change_says_which_source_what_it_was_and_is_and_what_to_do() -> None:
    with pytest.raises(SourcesChangedError) as raised:
        check_inputs((ORDERS, PAYMENTS), (ORDERS, write(files("refunds", reader=1), to="b")), JOB)
    error = pickle.loads(pickle.dumps(raised.value))
    assert "source 1 of the write to b is files refunds, and was files payments" in error.what
    assert "tpc accept-sources" in error.remedy


@pytest.mark.parametrize(
    ("after", "what"),
    [
        ((write(files("payments")), write(files("orders", reader=1), to="b")), "another source of the pipeline"),
        ((write(SourceRecord("kafka", "orders")), PAYMENTS), "positions of the one mean nothing"),
        ((ORDERS, write(files("payments"), to="b")), "not read by the reader that it had"),
        ((ORDERS,), "reads 1 sources and 2 are on record"),
    ],
    ids=["exchanged", "another kind", "one reader for two", "one less"],
)
def test_what_no_record_can_accept_does_not_name_the_command(after: Inputs, what: str) -> None:
    with pytest.raises(SourcesChangedError, match=what) as raised:
        check_inputs((ORDERS, PAYMENTS), after, JOB)
    assert raised.value.details == {"acceptable": False}
    assert "accept-sources" not in raised.value.remedy


def test_parsing_may_change_once_no_decided_epoch_can_be_read_again() -> None:
    before = (write(files("orders", parsing={"schema": "id INT"})),)
    after = (write(files("orders", parsing={"schema": "id LONG", "header": "true"})),)
    check_inputs(before, after, JOB)
    with pytest.raises(
        SourcesChangedError, match="epoch 3 may be read again: header was not given and is true; schema"
    ):
        check_inputs(before, after, JOB, replays=3)


def test_the_same_sources_in_another_number_of_writes_must_be_distinct() -> None:
    check_inputs((write(files("x"), files("y", reader=1)),), (write(files("x")), write(files("y", reader=1))), JOB)
    with pytest.raises(SourcesChangedError, match="another number of writes"):
        check_inputs((write(files("x"), files("x", reader=1)),), (write(files("x")), write(files("x", reader=1))), JOB)


def test_a_service_s_source_keeps_its_kind_and_place_under_its_name() -> None:
    def source(kind: str, place: str) -> Inputs:
        return (InputRecord("in", (), (SourceRecord(kind, place),)),)

    check_named(source("lines", "/a"), source("lines", "/a"), JOB)
    check_named(source("mine", ""), source("mine", "somewhere"), JOB)
    check_named(source("", ""), source("lines", "/a"), JOB)
    check_named((), source("lines", "/a"), JOB)
    check_named(source("lines", "/a"), (), JOB)
    with pytest.raises(SourcesChangedError, match="'in' is lines /b, and was lines /a"):
        check_named(source("lines", "/a"), source("lines", "/b"), JOB)
    with pytest.raises(SourcesChangedError, match="mean nothing in the other"):
        check_named(source("lines", "/a"), source("kafka", ""), JOB)


# On record -----------------------------------------------------------------------------------------------------------


def test_a_term_records_its_sources_and_the_next_one_carries_them() -> None:
    body = generation_body(1, sources=inputs_to_json((ORDERS, PAYMENTS)))
    history = fold(records((RecordKind.GENERATION, body)))
    assert history.inputs == (ORDERS, PAYMENTS)
    again = generation_body(2, **history.carried(["a", "b"], keep_epochs=1))
    assert fold(records((RecordKind.GENERATION, again))).inputs == (ORDERS, PAYMENTS)


def test_a_log_of_before_has_no_sources_on_record() -> None:
    history = fold(records((RecordKind.GENERATION, generation_body(1))))
    assert history.inputs is None
    assert (
        fold(records((RecordKind.GENERATION, generation_body(2, **history.carried([], keep_epochs=1))))).inputs is None
    )


def test_ids_of_what_an_epoch_is_the_first_to_read_are_added_and_carried() -> None:
    body = generation_body(1, sources=inputs_to_json((ORDERS, PAYMENTS)))
    decided = replace(manifest(0), source_ids={1: {"topic": "id"}})
    history = fold(records((RecordKind.GENERATION, body), intent(decided)))
    assert history.inputs is not None
    assert [dict(source.ids) for source in sources_of(history.inputs)] == [{}, {"topic": "id"}]
    carried = generation_body(2, pending=decided.to_json(), **history.carried(["a", "b"], keep_epochs=1))
    assert fold(records((RecordKind.GENERATION, carried))).inputs == history.inputs


def test_accepted_sources_take_the_place_of_those_on_record_and_the_columns_stay() -> None:
    body = generation_body(1, sources=inputs_to_json((ORDERS,)), schemas={"a": [["id", "bigint"]]})
    accepted = (RecordKind.ACCEPTANCE, {"sources": inputs_to_json((PAYMENTS,)), "reason": "r", "operator": "o"})
    history = fold(records((RecordKind.GENERATION, body), accepted))
    assert history.inputs == (PAYMENTS,)
    assert history.schemas == {"a": (("id", "bigint"),)}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("ftp://ann:pass@host/in/*.csv", "ftp://host/in/*.csv"),
        ("ftp://ann:pa/s@s@host/in/*.csv", "ftp://host/in/*.csv"),
        ("s3a://KEY:SE+CRET@bucket/in, s3a://KEY:other@bucket/more", "s3a://bucket/in, s3a://bucket/more"),
        ("abfss://container@account/in", "abfss://container@account/in"),
        ("hdfs://host:8020/in@2024", "hdfs://host:8020/in@2024"),
        ("topics a, b", "topics a, b"),
    ],
)
def test_no_user_and_no_password_in_a_place_go_on_record(given: str, kept: str) -> None:
    assert SourceRecord("files", given).place == kept
    assert SourceRecord("files", given).to_json()["place"] == kept


def test_a_record_of_before_that_has_a_user_is_of_the_same_place() -> None:
    record = SourceRecord("files", "ftp://ann:pass@host/in")
    assert SourceRecord.from_json({**record.to_json(), "place": "ftp://ann@host/in"}) == record
