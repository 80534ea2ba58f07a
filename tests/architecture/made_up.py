"""Small trees of modules for the tests of the checker."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.imports import Tree, read_tree


def tree_of(root: Path, **sources: str) -> Tree:
    """A tree `tpc`: of `a__b="import c"` a module `tpc.a.b` is made, every folder with an `__init__.py`."""
    (root / "tpc").mkdir()
    for name, source in sources.items():
        path = (root / "tpc").joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    for folder in {root / "tpc", *(path.parent for path in (root / "tpc").rglob("*.py"))}:
        (folder / "__init__.py").touch()
    return read_tree(root)
