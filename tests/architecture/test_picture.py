"""The page on architecture is what the source draws, and what draws it draws right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.imports import own_tree
from tests.architecture.made_up import tree_of
from tests.architecture.picture import DOCUMENT, PART, arrows, drawn, flowchart, reduced, refreshed


def test_the_page_is_what_the_source_draws() -> None:
    text = DOCUMENT.read_text()
    assert len(PART.findall(text)) == 5
    assert refreshed(text, own_tree()) == text, "run `make architecture`"


def test_an_arrow_is_drawn_between_the_rooms_of_two_modules(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, a__x="from tpc.b import y", b__y="import tpc.flat", flat="", other="import tpc.flat")
    assert arrows(tree, "tpc", lumped="core") == {("a", "b"), ("b", "core")}
    assert arrows(tree, "tpc") == {("a", "b"), ("b", "flat"), ("other", "flat")}


def test_what_only_a_type_checker_imports_is_not_drawn(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, a="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tpc.b", b="")
    assert arrows(tree, "tpc") == set()


@pytest.mark.parametrize(
    ("edges", "kept"),
    [
        ({("a", "b"), ("b", "c"), ("a", "c")}, {("a", "b"), ("b", "c")}),
        ({("a", "b"), ("a", "c")}, {("a", "b"), ("a", "c")}),
        ({("a", "b"), ("b", "a")}, {("a", "b"), ("b", "a")}),
    ],
    ids=["a shortcut goes", "a fork stays", "a circle stays"],
)
def test_as_few_arrows_as_lead_to_the_same_places(edges: set[tuple[str, str]], kept: set[tuple[str, str]]) -> None:
    assert reduced(edges) == kept


def test_a_picture_does_not_depend_on_the_order_of_the_imports() -> None:
    assert flowchart([("b", "c"), ("a", "b")]) == flowchart([("a", "b"), ("b", "c")])


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing is drawn as 'the moon'"):
        drawn("the moon", tree_of(tmp_path))
