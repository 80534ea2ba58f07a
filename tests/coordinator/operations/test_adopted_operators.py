"""`tpc adopt` of a query that keeps state: in which output mode it ran is known, or asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from tests.coordinator.operations.test_adoption import DEADLINE_S, FORMAT, JOB, PROVIDER, ROCKSDB, Old, adopted, log_at
from tests.support.feed import Feed
from tests.support.session_settings import session_with
from tpc.__main__ import app
from tpc.coordinator.operations.adopted_operators import OutputMode
from tpc.coordinator.operations.adoption import adopt
from tpc.errors import ConfigurationError


@pytest.fixture
def old(tmp_path: Path) -> Old:
    return Old(tmp_path / "old")


OPERATORS = {
    "stateStoreSave": None,
    "sessionWindowStateStoreSaveExec": None,
    "of a later Spark": None,
    "dedupe": "alike",
    "dedupeWithinWatermark": "alike",
    "symmetricHashJoin": "alike",
    "flatMapGroupsWithState": "alike",
    "transformWithStateInPandasExec": "alike",
}


def keeps_state(old: Old, operator: str, **more: Any) -> None:
    described = {"operatorInfo": {"operatorId": 0, "operatorName": operator}, "stateStoreInfo": [], **more}
    name, version = ("v2/0", "v2") if more else ("metadata", "v1")
    old.write(f"state/0/_metadata/{name}", f"{version}\n{json.dumps(described)}")
    old.write("state/0/0/2.changelog", "rows")
    old.commit(1, stateUniqueIds={"0": [["a"]]})


@pytest.mark.parametrize("operator", OPERATORS)
def test_state_whose_rows_depend_on_the_output_mode_is_adopted_only_where_that_is_said(
    operator: str, old: Old, tmp_path: Path
) -> None:
    keeps_state(old, operator)
    for mode in (OutputMode.UPDATE, OutputMode.COMPLETE):
        with pytest.raises(ConfigurationError, match=f"ran in the output mode {mode.value}"):
            adopt(old.checkpoint, JOB, tmp_path / "new", log_at(tmp_path / "new"), output_mode=mode)
    if OPERATORS[operator] is None:
        with pytest.raises(
            ConfigurationError, match=f"state \\({operator}\\) that depends on its output mode"
        ) as caught:
            adopted(old.checkpoint, tmp_path / "new")
        assert "--output-mode append" in caught.value.remedy
    assert not (tmp_path / "new").exists()
    said = None if OPERATORS[operator] else OutputMode.APPEND
    assert adopt(old.checkpoint, JOB, tmp_path / "new", log_at(tmp_path / "new"), output_mode=said).stateful


@pytest.mark.parametrize(("mode", "is_taken"), [("Append", True), ("Update", False), ("Complete", False)])
def test_an_operator_that_tells_its_output_mode_is_believed(
    mode: str, is_taken: bool, old: Old, tmp_path: Path
) -> None:
    keeps_state(old, "transformWithStateExec", operatorPropertiesJson=json.dumps({"outputMode": mode}))
    if is_taken:
        assert adopted(old.checkpoint, tmp_path / "new").stateful
        return
    with pytest.raises(ConfigurationError, match=f"ran in the output mode {mode}"):
        adopt(old.checkpoint, JOB, tmp_path / "new", log_at(tmp_path / "new"), output_mode=OutputMode.APPEND)


def test_state_that_nothing_describes_is_adopted_only_with_its_output_mode(old: Old, tmp_path: Path) -> None:
    keeps_state(old, "dedupe")
    old.write("state/1/0/2.changelog", "rows")
    with pytest.raises(ConfigurationError, match="state \\(of unknown kind\\)"):
        adopted(old.checkpoint, tmp_path / "new")
    old.write("state/1/_metadata/metadata", "v1\n{")
    with pytest.raises(ConfigurationError, match="state \\(of unknown kind\\)"):
        adopted(old.checkpoint, tmp_path / "new")


def test_the_command_takes_the_output_mode(old: Old, tmp_path: Path) -> None:
    keeps_state(old, "stateStoreSave")
    call = ["adopt", str(old.checkpoint), "--name", "job", "--checkpoint", str(tmp_path / "new")]
    for mode, is_taken in ((["--output-mode", "update"], False), ([], False), (["--output-mode", "append"], True)):
        said = CliRunner().invoke(app, [*call, *mode])
        assert (said.exit_code == 0) is is_taken, said.output


def read(frame: DataFrame, _: int) -> None:
    """A batch of somebody else's query."""
    frame.collect()


@pytest.mark.spark
def test_an_aggregation_in_update_mode_is_not_adopted_unasked(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "feed")
    feed.epochs(2)
    counted = feed.frame(spark).withWatermark("event", "1 hour").groupBy(F.window("event", "1 minute")).count()
    with session_with(spark, {PROVIDER: ROCKSDB, FORMAT: "2"}):
        writer = counted.writeStream.foreachBatch(read).outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path / "old")).trigger(availableNow=True)
        assert writer.start().awaitTermination(DEADLINE_S)
    with pytest.raises(ConfigurationError, match="state \\(stateStoreSave\\) that depends on its output mode"):
        adopted(tmp_path / "old", tmp_path / "new")
