from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_batches import RowBatches, batch_of
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink

SCHEMA = {"n": int, "said": str}
ROWS: list[dict[str, Any]] = [{"n": 1, "said": "a"}, {"n": None, "said": ""}, {"n": 3, "said": "\x00"}]
SINK = FileSink("/nowhere", name="sink")


async def awaitable(row: Mapping[str, Any]) -> bool:
    return True


def generator(row: Mapping[str, Any]) -> Any:
    yield True


class Asking:
    async def __call__(self, row: Mapping[str, Any]) -> bool:
        return True


def taken(where: Any) -> list[bool]:
    """Which rows go to the sink."""
    writing = ServiceWriting("rows", SCHEMA).to(SINK, where=where)
    marked = RowBatches([writing]).marked(0, batch_of(writing, ROWS))
    return [digest is not None for digest in marked.column("digest_0_0").to_pylist()]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (lambda row: row["n"] == 1, [True, False, False]),
        (lambda row: None if row["n"] is None else row["n"] > 1, [False, False, True]),
        (lambda row: np.bool_(row["n"] is None), [False, True, False]),
        (pc.field("n") > 1, [False, False, True]),
        (pc.scalar(True), [True, True, True]),
    ],
)
def test_true_is_yes_and_none_is_no(where: Any, rows: list[bool]) -> None:
    assert taken(where) == rows


@pytest.mark.parametrize(
    "where",
    [awaitable, generator, Asking(), partial(awaitable), "valid", True, 1, ["n"], pa.array([True])],
    ids=lambda where: type(where).__name__,
)
def test_what_cannot_answer_is_refused_when_it_is_said(where: Any) -> None:
    with pytest.raises(ConfigurationError, match="where=") as refused:
        ServiceWriting("rows", SCHEMA).to(SINK, where=where)
    assert refused.value.sink == "sink"


@pytest.mark.parametrize("where", [pc.field("m") > 1, pc.field("n"), pc.field("said") > 1, pc.scalar("yes")], ids=str)
def test_an_expression_that_is_no_condition_of_these_rows_is_refused_when_it_is_said(where: pc.Expression) -> None:
    with pytest.raises(ConfigurationError, match="where=") as refused:
        ServiceWriting("rows", SCHEMA).to(SINK, where=where)
    assert refused.value.sink == "sink"


@pytest.mark.parametrize(
    "answer",
    [1, 0, "", "no", [], {}, np.array([True, False]), np.array(True), pa.scalar(False), 0.0, lambda: True],
    ids=lambda answer: f"{type(answer).__name__}-{'' if callable(answer) else answer}",
)
def test_an_answer_that_is_neither_yes_nor_no_is_refused_by_name(answer: Any) -> None:
    def odd(row: Mapping[str, Any]) -> Any:
        return answer if row["n"] == 3 else True

    with pytest.raises(ConfigurationError, match=r"odd answers .*'n': 3") as refused:
        taken(odd)
    assert refused.value.sink == "sink"


def test_an_awaitable_answer_is_refused_and_closed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigurationError, match="an awaitable"):
            taken(lambda row: awaitable(dict(row)))


def test_a_condition_sees_the_values_that_the_sinks_get(tmp_path: Path) -> None:
    seen: list[Any] = []
    writing = ServiceWriting("rows", {"n": pa.float64(), "tags": pa.list_(pa.int64())})
    writing.to(SINK, where=lambda row: seen.append(dict(row)))
    batch = batch_of(writing, [{"n": 2, "tags": (1, np.int8(2))}])
    RowBatches([writing]).marked(0, batch)
    assert seen == batch.to_pylist()
