"""Every way to import is seen, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.imports import read_tree
from tests.architecture.made_up import tree_of


@pytest.mark.parametrize(
    "source",
    [
        "import tpc.b.c",
        "import tpc.b.c as other",
        "from tpc.b import c",
        "from tpc.b.c import anything",
        "from .b import c",
        "from .b.c import anything",
        "def f():\n    from tpc.b import c",
        "class A:\n    async def f(self):\n        import tpc.b.c",
        "try:\n    pass\nexcept ValueError:\n    from tpc.b import c",
        "import importlib\nimportlib.import_module('tpc.b.c')",
    ],
)
def test_an_import_is_seen(tmp_path: Path, source: str) -> None:
    tree = tree_of(tmp_path, a=source, b__c="")
    [found] = [at for at in tree.imports if at.imported.startswith("tpc")]
    assert (found.importer, found.imported, found.for_types) == ("tpc.a", "tpc.b.c", False)


def test_a_package_imported_from_the_one_above_is_that_package(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, a="from tpc import b", b__c="")
    assert [at.imported for at in tree.imports] == ["tpc.b"]


def test_an_import_for_the_type_checker_is_marked(tmp_path: Path) -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tpc import b\nelse:\n    from tpc import c"
    tree = tree_of(tmp_path, a=source, b="", c="")
    assert [(at.imported, at.for_types) for at in tree.imports][1:] == [("tpc.b", True), ("tpc.c", False)]


def test_a_relative_import_in_a_package_s_own_file_begins_there(tmp_path: Path) -> None:
    tree_of(tmp_path, b__c="")
    (tmp_path / "tpc" / "b" / "__init__.py").write_text("from . import c\nfrom .. import a")
    (tmp_path / "tpc" / "a.py").touch()
    assert [at.imported for at in read_tree(tmp_path).imports] == ["tpc.b.c", "tpc.a"]


def test_a_linked_folder_belongs_to_the_tree(tmp_path: Path) -> None:
    tree_of(tmp_path, a="from tpc.sinks import kafka")
    (tmp_path / "sinks").mkdir()
    for name in ("__init__.py", "kafka.py"):
        (tmp_path / "sinks" / name).touch()
    (tmp_path / "tpc" / "sinks").symlink_to(tmp_path / "sinks")
    assert [at.imported for at in read_tree(tmp_path).imports] == ["tpc.sinks.kafka"]
