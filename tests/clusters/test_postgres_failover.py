"""A replica promoted while an epoch is prepared, decided or committed; the address names both servers."""

from __future__ import annotations

import re
import threading
import time

import pytest

from tests.clusters.conftest import Start, StartPair
from tests.clusters.pipeline import ClusterPipeline, expected_rows
from tests.clusters.strike import EPOCH, LAST_EPOCH, Evidence, strike
from tests.support.processes import eventually
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.chaos.checkers.postgres_content import prepared_transactions, query
from tpc.chaos.servers.postgres_pair import PostgresPair
from tpc.errors import HistoryMismatchError, TpcError, UnknownOutcomeError
from tpc.sinks.postgres.sink import PostgresSink

SUITE = "PostgreSQL, failover"
TIMEOUT_S = 120.0
AWAY_S = 8.0
STEPS = ("pass.prepared", "epoch.prepared", "epoch.decided", "sink.commit", "sink.committed", "epoch.committed")
CORE = ("epoch.prepared", "epoch.decided")
EVERY_STEP = [pytest.param(step, marks=() if step in CORE else pytest.mark.clusters) for step in STEPS]
BEFORE_THE_COMMIT = [step for step in EVERY_STEP if step.values[0] not in ("sink.committed", "epoch.committed")]

pytestmark = pytest.mark.stack


def on(pair: PostgresPair, start_pipeline: Start, name: str) -> ClusterPipeline:
    return start_pipeline(name, lambda: PostgresSink("t", dsn=pair.dsn, timeout_s=10))


def rows_of(pair: PostgresPair) -> list[tuple[object, ...]]:
    return query(pair.dsn, "SELECT id, words FROM t")


def judge(pair: PostgresPair, pipeline: ClusterPipeline, evidence: Evidence) -> None:
    pipeline.close()
    left = left_behind(Where(pipeline.id.name, dsn=pair.dsn, log=pipeline.log))
    evidence.fault["restarts"] = pipeline.starts
    evidence.judge(
        multisets_equal("table t", [(row["id"], row["words"]) for row in expected_rows(LAST_EPOCH)], rows_of(pair)),
        nothing_left("left behind", {**left, "the log": unfinished_epochs(pipeline.history)}),
        last_epochs_equal("last epochs", pipeline.history, newest_epochs(pipeline.make(), pipeline.id)),
    )


@pytest.mark.parametrize("step", EVERY_STEP)
def test_a_synchronous_replica_goes_on_where_the_primary_was(
    start_pair: StartPair, start_pipeline: Start, evidence: Evidence, step: str
) -> None:
    pair = start_pair(synchronous=True)
    pipeline = on(pair, start_pipeline, "synchronous")
    with strike(evidence, pipeline, step, pair.fail_over):
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    assert not [why for why in pipeline.starts if why.startswith("RepairNeeded")], "the prepared branches were there"
    judge(pair, pipeline, evidence)


@pytest.mark.parametrize("step", BEFORE_THE_COMMIT)
def test_branches_that_an_asynchronous_replica_has_not_got_are_written_again(
    start_pair: StartPair, start_pipeline: Start, evidence: Evidence, step: str
) -> None:
    pair = start_pair(synchronous=False)
    pipeline = on(pair, start_pipeline, "repaired")
    with strike(evidence, pipeline, step, pair.fail_over, also={("epoch.completed", EPOCH - 1): pair.leave_behind}):
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    assert [why for why in pipeline.starts if why.startswith("RepairNeeded")] or step == "pass.prepared"
    judge(pair, pipeline, evidence)


@pytest.mark.parametrize("step", BEFORE_THE_COMMIT)
def test_an_asynchronous_replica_without_earlier_epochs_stops_the_pipeline_which_names_them(
    start_pair: StartPair, start_pipeline: Start, evidence: Evidence, step: str
) -> None:
    pair = start_pair(synchronous=False)
    pipeline = on(pair, start_pipeline, "stopped")
    with (
        strike(evidence, pipeline, step, pair.fail_over, also={("epoch.completed", 0): pair.leave_behind}),
        pytest.raises((HistoryMismatchError, UnknownOutcomeError)) as stopped,
    ):
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    evidence.note(f"stopped: {stopped.value}")
    claims_nothing_is_lost(stopped.value)
    assert pipeline.history.last_intent == (EPOCH - 1 if step == "pass.prepared" else EPOCH)
    for _ in range(2):
        with pytest.raises(HistoryMismatchError) as named:
            pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
        assert re.search(r"lost in it: 1$", named.value.what), named.value.what
        assert named.value.sink == "postgres-t"
        claims_nothing_is_lost(named.value)
    evidence.judge(
        multisets_equal(
            "the epochs that the replica had", [(row["id"], row["words"]) for row in expected_rows(0)], rows_of(pair)
        )
    )


@pytest.mark.clusters
@pytest.mark.parametrize("step", ["pass.prepared", "epoch.prepared", "epoch.decided", "sink.committed"])
def test_a_synchronous_replica_that_is_away_holds_up_the_epoch_until_it_is_back(
    start_pair: StartPair, start_pipeline: Start, evidence: Evidence, step: str
) -> None:
    """The primary answers nothing that its replica has not got."""
    pair = start_pair(synchronous=True)
    pipeline = on(pair, start_pipeline, "held-up")
    returning: list[threading.Thread] = []

    def stop_the_replica() -> None:
        pair.replica.stop()
        decided = step in ("epoch.decided", "sink.committed")

        def come_back() -> None:
            waited = time.monotonic() + AWAY_S
            eventually(lambda: time.monotonic() > waited or bool(pipeline.starts), "time passes", timeout_s=TIMEOUT_S)
            history = pipeline.history
            evidence.fault["while_gone"] = {"last_intent": history.last_intent, "complete": history.last_complete}
            evidence.note("the replica comes back")
            pair.replica.start()

        returning.append(threading.Thread(target=come_back, daemon=True))
        returning[0].start()
        assert pipeline.history.last_intent == (EPOCH if decided else EPOCH - 1)

    with strike(evidence, pipeline, step, stop_the_replica):
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    returning[0].join()
    judge(pair, pipeline, evidence)


def claims_nothing_is_lost(error: TpcError) -> None:
    """Raise AssertionError if the error says so: something is."""
    assert "nothing is lost" not in str(error).lower()
    assert "nothing was lost" not in str(error).lower()


@pytest.mark.clusters
@pytest.mark.parametrize(("step", "epoch"), [("epoch.committed", EPOCH), ("epoch.decided", EPOCH - 1)])
def test_where_only_commits_were_lost_the_prepared_branches_bring_the_epoch_back(
    start_pair: StartPair, start_pipeline: Start, evidence: Evidence, step: str, epoch: int
) -> None:
    """As the page on restoring says: COMMIT PREPARED by hand, then start again."""
    pair = start_pair(synchronous=False)
    pipeline = on(pair, start_pipeline, "by-hand")
    struck = step if epoch == EPOCH else "epoch.decided"
    with (
        strike(evidence, pipeline, struck, pair.fail_over, also={("epoch.decided", epoch): pair.leave_behind}),
        pytest.raises((HistoryMismatchError, UnknownOutcomeError)),
    ):
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    with pytest.raises(HistoryMismatchError, match=rf"lost in it: {epoch} ") as named:
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    assert "commit these by hand" in named.value.remedy
    names = [str(one.handle) for one in pipeline.history.manifests[epoch].committables("postgres-t")]
    *others, last = [gid for gid in prepared_transactions(pair.dsn) if gid.rpartition("@")[0] in names]
    for gid in others:
        pair.replica.ask(f"COMMIT PREPARED '{gid}'")
    with pytest.raises(HistoryMismatchError, match="its commits are lost in the sink" if others else "lost in it"):
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    pair.replica.ask(f"COMMIT PREPARED '{last}'")

    pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)

    judge(pair, pipeline, evidence)
