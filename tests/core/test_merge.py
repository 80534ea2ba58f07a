from __future__ import annotations

import pytest

from tpc.errors import ConfigurationError
from tpc.merge import MergeHow, MergePlan, merge_plan


def test_one_word_stands_for_every_column_that_is_not_key() -> None:
    plan = merge_plan(["k"], "add", None).completed(["k", "a", "b"])
    assert plan == MergePlan(("k",), {"a": MergeHow.ADD, "b": MergeHow.ADD})


def test_a_word_by_column_says_nothing_about_others() -> None:
    plan = merge_plan(["k"], {"a": "min"}, None).completed(["k", "a", "b"])
    assert plan.columns == {"a": MergeHow.MIN}


@pytest.mark.parametrize("merge", ["replace", {"a": "replace"}])
def test_replace_needs_an_order(merge: str | dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="needs an order column"):
        merge_plan(["k"], merge, None)
    assert merge_plan(["k"], merge, "at").order_by == "at"


@pytest.mark.parametrize("how", ["add", "min", "keep"])
def test_the_order_column_keeps_its_meaning(how: str) -> None:
    with pytest.raises(ConfigurationError, match="the order column 'at' cannot be merged with"):
        merge_plan(["k"], {"a": "replace", "at": how}, "at")
    assert merge_plan(["k"], {"a": "replace", "at": "max"}, "at").columns["at"] is MergeHow.MAX


@pytest.mark.parametrize(
    ("key", "merge", "what"),
    [
        ([], "add", "needs key columns"),
        (["k"], {"k": "add"}, "key columns cannot be merged"),
        (["k"], "sum", "unknown merge 'sum'.*replace, add, min, max, keep"),
    ],
)
def test_what_makes_no_merge_is_refused_with_the_remedy(key: list[str], merge: str | dict[str, str], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        merge_plan(key, merge, None)


def test_keep_alone_may_store_its_order() -> None:
    plan = merge_plan(["k"], "keep", "at").completed(["k", "a", "at"])
    assert plan.order_is_stored
    assert set(plan.kept) == {"a", "at"}
    assert not merge_plan(["k"], {"a": "keep", "at": "max"}, "at").order_is_stored


def test_the_order_that_a_target_keeps_of_a_row_comes_from_the_row_that_it_keeps() -> None:
    columns = {"a": MergeHow.KEEP, "at": MergeHow.MIN}
    assert MergePlan(("k",), columns, "at").kept == ("a", "at")
    assert MergePlan(("k",), {**columns, "at": MergeHow.MAX}, "at").kept == ("a",)
    assert MergePlan(("k",), {**columns, "at": MergeHow.KEEP}, "at").kept == ("a", "at")
    assert MergePlan(("k",), columns).kept == ("a",)
