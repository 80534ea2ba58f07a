"""A branch in PostgreSQL: prepared it is durable and invisible, and anybody may finish it, once or more often."""

from __future__ import annotations

import pytest

from tests.sinks.postgres.branches import JOB, branch, checked, committed, prepared, rows, verdicts
from tests.support.postgres_database import PostgresDatabase, fresh_database
from tpc.errors import TransientError
from tpc.handles import MAX_NAME_LENGTH, Handle, PipelineId
from tpc.sink import Committable, Committer, GivenUp, InDoubt, Marker, Verdict
from tpc.sinks.postgres.sink import PostgresSink

TABLE = "CREATE TABLE t (id bigint PRIMARY KEY, words text)"
ONE = rows(id=[1, 2], words=["a", "b"])
COUNT = "SELECT count(*) FROM t"


@pytest.fixture
def sink(postgres: PostgresDatabase) -> PostgresSink:
    postgres.execute(TABLE)
    return checked(postgres, ONE.schema)[0]


@pytest.fixture
def committer(sink: PostgresSink) -> Committer:
    return sink.committer(JOB)


def test_a_prepared_branch_is_invisible_until_it_is_committed(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    committable = prepared(sink, branch(), ONE, rows(id=[3], words=["c"]))
    assert committable.rows == 3
    assert postgres.execute(COUNT) == [(0,)]
    assert postgres.in_doubt() == [committable.resource]
    assert verdicts(committer.commit([Committable.from_json(committable.to_json())])) == [Verdict.COMMITTED]
    assert postgres.execute(COUNT) == [(3,)]
    assert postgres.in_doubt() == []


def test_a_second_commit_says_already(sink: PostgresSink, committer: Committer) -> None:
    committable = prepared(sink, branch(), ONE, hint=committer.hint())
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]
    assert verdicts(committer.commit([committable])) == [Verdict.ALREADY]


def test_an_aborted_branch_leaves_nothing_and_may_be_aborted_again(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    committable = prepared(sink, branch(), ONE)
    committer.abort(committer.in_doubt())
    committer.abort([committable])
    assert postgres.in_doubt() == []
    assert postgres.execute(COUNT) == [(0,)]
    assert committer.newest_marker() is None


def test_a_writer_aborts_before_and_after_its_prepare(postgres: PostgresDatabase, sink: PostgresSink) -> None:
    written = sink.writer(branch(1), ONE.schema, {})
    written.write(ONE)
    written.abort()
    written.abort()
    done = sink.writer(branch(2), ONE.schema, {})
    done.write(ONE)
    done.prepare()
    done.abort()
    done.abort()
    assert postgres.in_doubt() == []
    assert postgres.execute(COUNT) == [(0,)]


def test_a_branch_without_rows_prepares_nothing(postgres: PostgresDatabase, sink: PostgresSink) -> None:
    writer = sink.writer(branch(), ONE.schema, {})
    writer.write(ONE.slice(0, 0))
    assert writer.prepare() is None
    writer.abort()
    assert postgres.in_doubt() == []


def test_a_branch_of_200_000_rows_is_whole(postgres: PostgresDatabase, sink: PostgresSink) -> None:
    batches = [rows(id=list(range(n, n + 10_000)), words=["x" * 20] * 10_000) for n in range(0, 200_000, 10_000)]
    committed(sink, branch(), *batches)
    assert postgres.execute("SELECT count(*), count(DISTINCT id), max(id) FROM t") == [(200_000, 200_000, 199_999)]


def test_two_sinks_of_one_task_write_side_by_side(postgres: PostgresDatabase, sink: PostgresSink) -> None:
    """One connection is not enough: the second branch begins while the first is open."""
    postgres.execute("CREATE TABLE other (id bigint)")
    other = PostgresSink("other", dsn=sink.dsn)
    ids = ONE.select(["id"])
    first, second = sink.writer(branch(), ONE.schema, {}), other.writer(branch(sink=other.name), ids.schema, {})
    first.write(ONE)
    second.write(ids)
    first.write(rows(id=[3], words=["c"]))
    both = [first.prepare(), second.prepare()]
    assert verdicts(sink.committer(JOB).commit([c for c in both if c])) == [Verdict.COMMITTED] * 2
    assert postgres.execute("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM other)") == [(3, 2)]


# What absence proves -----------------------------------------------------------------------------------------------


def test_a_branch_rolled_back_by_hand_is_lost_and_never_already(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    committed(sink, branch(1), ONE)
    committable = prepared(sink, branch(2), rows(id=[3], words=["c"]), hint=committer.hint())
    postgres.execute(f"ROLLBACK PREPARED '{committable.resource}'")
    assert verdicts(committer.commit([committable])) == [Verdict.LOST]


def test_a_lost_branch_is_lost_also_when_its_sibling_is_committed(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    hint = committer.hint()
    first = prepared(sink, branch(1, partition=0), ONE, hint=hint)
    second = prepared(sink, branch(1, partition=1), rows(id=[3], words=["c"]), hint=hint)
    postgres.execute(f"ROLLBACK PREPARED '{second.resource}'")
    assert verdicts(committer.commit([first, second])) == [Verdict.COMMITTED, Verdict.LOST]


def test_absence_is_unknown_when_a_backup_without_the_epoch_before_was_restored(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    committed(sink, branch(1), ONE)
    committable = prepared(sink, branch(2), rows(id=[3], words=["c"]), hint=committer.hint())
    postgres.execute(f"ROLLBACK PREPARED '{committable.resource}'")
    postgres.execute("DELETE FROM tpc_markers")  # as in a backup of an earlier time
    assert verdicts(committer.commit([committable])) == [Verdict.UNKNOWN]


def test_absence_is_unknown_when_later_epochs_may_have_pruned_the_marker(
    sink: PostgresSink, committer: Committer
) -> None:
    old = prepared(sink, branch(1), ONE, hint=committer.hint())
    committer.commit([old])
    new = prepared(sink, branch(2), rows(id=[3], words=["c"]), hint=committer.hint())
    committer.commit([new])
    committer.released([new], 2)
    assert verdicts(committer.commit([old])) == [Verdict.UNKNOWN]


def test_absence_is_unknown_where_the_markers_of_the_first_epoch_were_removed(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    committable = prepared(sink, branch(1), ONE, hint=committer.hint())
    committer.commit([committable])
    postgres.execute("DELETE FROM tpc_markers")
    for _ in range(2):
        (outcome,) = committer.commit([committable])
        assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, True)
        assert committer.give_up([committable]) == [GivenUp.NOT_KNOWN]
        committer.hint()  # a start looks before it commits again: the base that it writes is another


@pytest.mark.parametrize("epochs_before", [0, 1])
def test_absence_is_unknown_where_markers_were_removed_between_two_branches_of_an_epoch(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer, epochs_before: int
) -> None:
    for epoch in range(epochs_before):
        committed(sink, branch(epoch), rows(id=[9], words=["z"]))
    hint = committer.hint()
    first = prepared(sink, branch(1, partition=0), ONE, hint=hint)
    second = prepared(sink, branch(1, partition=1), rows(id=[3], words=["c"]), hint=hint)
    committer.commit([first])
    postgres.execute("DELETE FROM tpc_markers")
    assert verdicts(committer.commit([second, first])) == [Verdict.COMMITTED, Verdict.UNKNOWN]


def test_a_base_is_written_once_and_goes_with_the_first_epoch(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    hint = committer.hint()
    assert committer.hint() == hint
    assert (hint["previous_epoch"], committer.newest_marker()) == (None, None)
    committable = prepared(sink, branch(1), ONE, hint=hint)
    assert committer.verify([committable]) is None
    committer.commit([committable])
    committer.released([committable], 1)
    assert postgres.execute("SELECT epoch FROM tpc_markers") == [(1,)]
    assert committer.hint() == {"previous_epoch": 1}


def test_a_branch_of_a_version_without_bases_is_lost_as_before(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    committable = prepared(sink, branch(1), ONE, hint={"previous_epoch": None})
    postgres.execute(f"ROLLBACK PREPARED '{committable.resource}'")
    assert verdicts(committer.commit([committable])) == [Verdict.LOST]


def test_absence_is_unknown_when_nobody_recorded_what_was_before(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    committable = prepared(sink, branch(1), ONE)
    postgres.execute(f"ROLLBACK PREPARED '{committable.resource}'")
    assert verdicts(committer.commit([committable])) == [Verdict.UNKNOWN]


def test_a_branch_prepared_in_another_database_is_unknown(sink: PostgresSink, postgres: PostgresDatabase) -> None:
    committable = prepared(sink, branch(1), ONE, hint={"previous_epoch": None})
    with fresh_database(postgres.dsn) as other:
        other.execute(TABLE)
        wrong, committer = checked(other, ONE.schema)
        (outcome,) = committer.commit([committable])
        assert outcome.verdict is Verdict.UNKNOWN
        assert "0A000" in outcome.evidence
        wrong.committer(JOB).close()
    assert postgres.in_doubt() == [committable.resource]


def test_verify_misses_a_branch_that_was_rolled_back(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    first, second = prepared(sink, branch(1), ONE), prepared(sink, branch(1, 1), rows(id=[3], words=["c"]))
    committer.verify([first, second])
    postgres.execute(f"ROLLBACK PREPARED '{second.resource}'")
    with pytest.raises(TransientError, match=second.resource):
        committer.verify([first, second])


# What is in doubt --------------------------------------------------------------------------------------------------


def test_in_doubt_lists_every_branch_of_the_name_and_of_no_other(sink: PostgresSink, committer: Committer) -> None:
    numbers = iter(range(100))
    mine = [branch(7), branch(7, 1), branch(8, pipeline=PipelineId("job", 2)), branch(7, sink="gone", generation=3)]
    others = [branch(7, pipeline=PipelineId(name)) for name in ("job-2", "job_2", "jobs", "jo", "xjob")]
    gids = {h: prepared(sink, h, rows(id=[next(numbers)], words=["a"])).resource for h in (*mine, *others)}
    assert committer.in_doubt() == [
        InDoubt(gids[h], h.pipeline, h.generation, h.sink, h.epoch, only_copy=True) for h in mine
    ]


def test_an_underscore_in_the_name_is_no_wildcard(sink: PostgresSink) -> None:
    prepared(sink, branch(pipeline=PipelineId("aXb")), ONE)
    assert sink.committer(PipelineId("a_b")).in_doubt() == []
    assert len(sink.committer(PipelineId("aXb")).in_doubt()) == 1


def test_branches_of_other_databases_are_left_alone(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    with fresh_database(postgres.dsn) as other:
        other.execute(TABLE)
        elsewhere, its_committer = checked(other, ONE.schema)
        theirs = prepared(elsewhere, branch(), ONE)
        assert committer.in_doubt() == []
        ours = prepared(sink, branch(), ONE)  # of the same name: another pipeline `job`, in another database
        for one, its in ((committer, ours), (its_committer, theirs)):
            assert [doubt.resource for doubt in one.in_doubt()] == [its.resource]
            assert verdicts(one.commit([its])) == [Verdict.COMMITTED]
        its_committer.close()


def test_the_longest_handle_is_a_gid_that_postgresql_takes(sink: PostgresSink) -> None:
    most = 2**63 - 1
    longest = Handle(PipelineId("j" * MAX_NAME_LENGTH, 2**31 - 1), most, "s" * MAX_NAME_LENGTH, most, 2**31 - 1, most)
    committable = prepared(sink, longest, ONE)
    assert len(committable.resource) <= 199
    committer = sink.committer(longest.pipeline)
    assert [doubt.resource for doubt in committer.in_doubt()] == [committable.resource]
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]


# Markers -----------------------------------------------------------------------------------------------------------


def test_the_newest_marker_is_this_pipelines_this_incarnations_and_this_sinks(
    sink: PostgresSink, committer: Committer
) -> None:
    assert committer.newest_marker() is None
    committed(sink, branch(3), ONE)
    committed(sink, branch(20, pipeline=PipelineId("job", 2)), rows(id=[3], words=["c"]))
    committed(sink, branch(30, sink="another"), rows(id=[4], words=["c"]))
    committed(sink, branch(10), rows(id=[5], words=["c"]))
    assert committer.newest_marker() == Marker(10, branch(10))
    assert committer.hint() == {"previous_epoch": 10}


def test_a_database_without_the_sinks_tables_shows_no_marker(postgres: PostgresDatabase) -> None:
    assert PostgresSink("t", dsn=postgres.dsn).committer(JOB).newest_marker() is None


def test_pruning_keeps_the_markers_of_the_newest_epoch(
    postgres: PostgresDatabase, sink: PostgresSink, committer: Committer
) -> None:
    for epoch in (1, 2, 3):
        committable = prepared(sink, branch(epoch), rows(id=[epoch], words=["x"]))
        committer.commit([committable])
        committer.released([committable], epoch)
        committer.released([], epoch + 100)  # an epoch without branches proves nothing about this sink
    assert postgres.execute("SELECT epoch FROM tpc_markers") == [(3,)]


def test_the_identity_names_cluster_database_and_table(postgres: PostgresDatabase, committer: Committer) -> None:
    ((system,),) = postgres.execute("SELECT system_identifier FROM pg_control_system()")
    assert committer.identity() == f"postgresql:{system}/{postgres.name}/public.t"


def test_the_newest_marker_stays_where_a_failover_has_lost_the_epoch_that_is_complete(
    sink: PostgresSink, committer: Committer
) -> None:
    committed(sink, branch(1), rows(id=[1], words=["a"]))
    lost = prepared(sink, branch(2), rows(id=[2], words=["b"]))
    committer.abort([lost])

    committer.released([lost], 2)

    newest = committer.newest_marker()
    assert newest is not None
    assert newest.epoch == 1
