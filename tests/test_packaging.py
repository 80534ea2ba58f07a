"""The wheel, as a user installs it: real files instead of links, and a light `import tpc`."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.compat.environment import CannotBeHadError, Environment, build_wheel, pip
from tests.compat.first_pipeline import first_pipeline
from tpc.errors import JavaNotFoundError
from tpc.support.java import find_java

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
HARNESS = tuple(f"tpc/chaos/{room}/" for room in ("explorer", "matrix", "programs", "prove", "simulator"))
"""What only a checkout has."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


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
    shipped = {name for name in modules if not name.startswith(HARNESS)}
    assert shipped
    assert shipped - names(wheel) == set()


def test_the_wheel_holds_no_proof_and_no_matrix_of_faults(wheel: Path) -> None:
    assert all((ROOT / folder.removeprefix("tpc/")).is_dir() for folder in HARNESS)
    assert [name for name in names(wheel) if name.startswith(HARNESS)] == []


def test_the_wheel_holds_the_core_and_what_is_not_python(wheel: Path) -> None:
    of_rooms = [path for room in ("chaos", "coordinator") for path in (ROOT / room).rglob("*")]
    others = (".j2", ".py.txt", ".css", ".js")
    found = {f"tpc/{path.relative_to(ROOT)}" for path in of_rooms if path.name.endswith(others)}
    templates = {name for name in found if not name.startswith(HARNESS)}
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


def test_the_newest_of_all_it_depends_on_runs_the_first_pipeline_of_the_reference(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment", Path(sys.executable))
    try:
        find_java()
        environment.install(wheel)
    except (JavaNotFoundError, CannotBeHadError) as error:
        pytest.skip(str(error))
    assert int(environment.run(first_pipeline(tmp_path))) > 0
