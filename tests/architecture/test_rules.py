"""Each rule notices what it is about, on trees made up for it; and leaves alone what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.made_up import tree_of
from tests.architecture.rules import (
    circles,
    too_long,
    wrong_importers,
    wrong_places,
    wrong_rooms,
    wrong_tiers,
)

CORE = {"tpc.machine"}
ROOMS = {
    "tpc": CORE,
    "tpc.machine": set[str](),
    "tpc.sinks.shared": CORE,
    "tpc.sinks.kafka": {*CORE, "tpc.sinks.shared"},
    "tpc.sinks.mongo": {*CORE, "tpc.sinks.shared"},
    "tpc.coordinator": CORE,
}
PARTS = {"machine": "", "sinks__shared__rows": "", "sinks__kafka__sink": "", "sinks__mongo__sink": ""}
PARTS["coordinator__engine"] = ""


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("machine", "from tpc import coordinator"),
        ("machine", "def f():\n    from tpc.coordinator import engine"),
        (
            "machine",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tpc.coordinator.kernel.engine import Engine",
        ),
        ("machine", "from tpc import pipeline"),
        ("sinks__kafka__sink", "from tpc.sinks.mongo.sink import MongoSink"),
        ("sinks__kafka__sink", "from tpc.sinks import mongo"),
        ("sinks__shared__rows", "import tpc.sinks.kafka.sink"),
        ("coordinator__engine", "from tpc.sinks import kafka"),
    ],
)
def test_an_import_into_a_room_that_is_not_allowed_is_told(tmp_path: Path, importer: str, source: str) -> None:
    tree = tree_of(tmp_path, **PARTS | {importer: source})
    [line] = wrong_rooms(tree, ROOMS)
    file, number = line.split(" ")[0].rsplit(":", 1)
    assert file.endswith(importer.replace("__", "/") + ".py")
    assert int(number) == len(source.splitlines())


@pytest.mark.parametrize(
    "source",
    ["from tpc import machine", "from tpc.sinks.shared import rows", "from tpc.sinks.kafka.sink import X", "import os"],
)
def test_an_import_that_is_allowed_is_not_told(tmp_path: Path, source: str) -> None:
    assert wrong_rooms(tree_of(tmp_path, **PARTS | {"sinks__kafka__sink": source}), ROOMS) == []


TIERS = ({"*"}, {"driver"}, {"cluster"})


@pytest.mark.parametrize(
    ("importer", "source", "wrong"),
    [
        ("k__cluster__a", "from tpc.k.driver import b", True),
        ("k__cluster__a", "def f():\n    from tpc.k.top import c", True),
        ("k__driver__b", "from tpc.k import top", True),
        ("k__driver__b", "from tpc.k.cluster import a", False),
        ("k__top", "from tpc.k.cluster import a", False),
        ("k__driver__b", "from tpc import other", False),
    ],
)
def test_an_import_against_the_tiers_is_told(tmp_path: Path, importer: str, source: str, wrong: bool) -> None:
    parts = {"k__cluster__a": "", "k__driver__b": "", "k__top": "", "other": ""}
    assert bool(wrong_tiers(tree_of(tmp_path, **parts | {importer: source}), "tpc.k", TIERS)) is wrong


def test_what_stands_in_no_tier_is_told(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, k__cluster__a="", k__new="")
    assert wrong_tiers(tree, "tpc.k", TIERS[1:]) == ["tpc.k.new is in no tier"]


def test_a_package_is_imported_only_by_whom_it_is_for(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path, proof__a="import tpc.proof.b", proof__b="", command="import tpc.proof", x="from tpc import proof"
    )
    [line] = wrong_importers(tree, "tpc.proof", {"tpc.command"})
    assert line.endswith("x.py:1 imports tpc.proof")


@pytest.mark.parametrize(
    "sources",
    [
        {"a": "import tpc.b", "b": "import tpc.a"},
        {"a": "import tpc.b", "b": "def f():\n    import tpc.a"},
        {"a": "from tpc import b", "b": "from tpc.d import c", "d__c": "from tpc.a import x"},
    ],
    ids=["two", "late", "three"],
)
def test_a_circle_is_told(tmp_path: Path, sources: dict[str, str]) -> None:
    tree = tree_of(tmp_path, **sources)
    assert len(circles(tree)) == 1


def test_two_modules_that_know_each_other_s_types_only_make_no_circle(tmp_path: Path) -> None:
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tpc.a"
    tree = tree_of(tmp_path, a="import tpc.b", b=for_types)
    assert circles(tree) == []


@pytest.mark.parametrize(
    "source", ["import psycopg", "def f():\n    from psycopg.rows import dict_row", "import unheard_of"]
)
def test_a_package_of_other_people_out_of_its_place_is_told(tmp_path: Path, source: str) -> None:
    tree = tree_of(tmp_path, machine=source, postgres__check="import psycopg\nimport os")
    [line] = wrong_places(tree, {"psycopg": {"tpc.postgres"}})
    assert "machine.py" in line


def test_a_module_of_more_lines_is_told_with_how_many(tmp_path: Path) -> None:
    assert too_long(tree_of(tmp_path, short="x = 1\n" * 3, long="x = 1\n" * 4), 3) == {"tpc.long": 4}
