"""The wheel, as a user installs it: real files instead of links, and a light `import tpc`."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SOURCES = ("tpc", "sinks", "coordinator", "chaos", "pyproject.toml", "README.md", "LICENSE")
DEADLINE_S = 300.0
SETUPTOOLS_MIN = 77
"""What pyproject.toml asks of the build; an older one here is left alone and a new one fetched for the build."""


def pip(*arguments: object) -> None:
    call = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr


def setuptools_version() -> int:
    try:
        return int(importlib.metadata.version("setuptools").split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves its own files among the sources."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    without_caches = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=without_caches)
        else:
            shutil.copy(ROOT / name, source / name)
    isolation = ["--no-build-isolation"] if setuptools_version() >= SETUPTOOLS_MIN else []
    pip("wheel", "--no-deps", *isolation, "--wheel-dir", place, source)
    [built] = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds the installed wheel and nothing it depends on."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    return target


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename for info in archive.infolist() if info.file_size}


@pytest.mark.parametrize("folder", ["sinks", "coordinator", "chaos"])
def test_the_wheel_holds_the_files_behind_every_link(wheel: Path, folder: str) -> None:
    modules = {f"tpc/{path.relative_to(ROOT)}" for path in (ROOT / folder).rglob("*.py") if path.stat().st_size}
    assert modules
    assert modules - names(wheel) == set()


def test_the_wheel_holds_the_core_and_what_is_not_python(wheel: Path) -> None:
    templates = {f"tpc/{path.relative_to(ROOT)}" for path in (ROOT / "chaos").rglob("*.j2")}
    core = {f"tpc/{path.name}" for path in (ROOT / "tpc").glob("*.py")}
    assert templates
    assert (core | templates) - names(wheel) == set()


def test_the_wheel_is_marked_as_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "tpc/py.typed" in archive.namelist()


def test_the_wheel_holds_nothing_but_the_package(wheel: Path) -> None:
    roots = {name.split("/")[0] for name in names(wheel)}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"tpc"}


LOADED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import tpc
print(json.dumps([tpc.__file__, sorted(sys.modules)]))
"""


def test_import_tpc_loads_the_core_and_the_standard_library_only(installed: Path) -> None:
    call = [sys.executable, "-S", "-I", "-c", LOADED, str(installed)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True)
    file, modules = json.loads(done.stdout)
    assert Path(file) == installed / "tpc" / "__init__.py"
    foreign = {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"tpc", "__main__"}
    assert foreign == set()
    assert [name for name in modules if name.startswith(("tpc.chaos", "tpc.sinks", "tpc.coordinator"))] == []


def test_the_command_line_is_there(installed: Path) -> None:
    assert (installed / "bin" / "tpc").is_file()
