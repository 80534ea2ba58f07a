"""`tpc` as one program: every command is mounted, and nothing heavy is loaded before a command is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command
from typer.testing import CliRunner

from tpc.__main__ import app

RUNNER = CliRunner()
COMMANDS = {
    "status",
    "in-doubt",
    "recover",
    "sweep",
    "resolve",
    "remove",
    "orphans",
    "demo",
    "verify",
    "chaos",
    "sink",
    "history",
    "show",
}
GROUPS = {"log", "savepoints"}
OF_OTHER_KINDS = {"run", "ui", "watch", "demo", "verify", "example", "chaos", "sink"}
HEAVY = {
    "pyspark",
    "pyarrow",
    "pandas",
    "numpy",
    "confluent_kafka",
    "kafka",
    "psycopg",
    "pymongo",
    "sqlalchemy",
    "psutil",
}
HELP = """
import json, sys
from typer.testing import CliRunner
from tpc.__main__ import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def test_help_names_every_command() -> None:
    result = RUNNER.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert {name for name in COMMANDS if name not in result.output} == set()


def operators_commands() -> dict[str, tuple[str, set[str]]]:
    """Help and options of those about a pipeline and its log, not of what runs a job, serves a page, stages faults."""
    program = get_command(app)
    assert isinstance(program, Group)
    found = {name: each for name, each in program.commands.items() if name not in OF_OTHER_KINDS | GROUPS}
    for group in sorted(GROUPS):
        below = program.commands[group]
        assert isinstance(below, Group)
        found |= {f"{group} {name}": each for name, each in below.commands.items()}
    return {
        name: (each.help or "", {option for parameter in each.params for option in parameter.opts})
        for name, each in found.items()
    }


def test_every_command_of_an_operator_prints_json_on_request() -> None:
    assert {name for name, (_, options) in operators_commands().items() if "--json" not in options} == set()


def test_every_command_of_an_operator_says_what_it_changes() -> None:
    assert {name for name, (told, _) in operators_commands().items() if "hange" not in told} == set()


def test_the_version_is_that_of_the_package() -> None:
    result = RUNNER.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"tpc {version('tpc')}\n"


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_be_taught_the_commands(shell: str) -> None:
    asked = {**os.environ, "_TPC_COMPLETE": f"complete_{shell}", "COMP_WORDS": "tpc his", "COMP_CWORD": "1"}
    asked |= {"_TYPER_COMPLETE_ARGS": "tpc his", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'tpc'; from tpc.__main__ import main; main()"]
    done = subprocess.run(program, env=asked, capture_output=True, text=True, timeout=60, check=False)
    assert "history" in done.stdout
    assert "status" not in done.stdout


def test_help_loads_neither_spark_nor_any_driver() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=60, check=True)
    assert HEAVY & set(json.loads(done.stdout)) == set()
