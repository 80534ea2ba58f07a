"""The programs of docs/examples that run without Spark: every day all of them, killed and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.programs.judged import run_and_judge
from tpc.chaos.programs.catalogue import PROGRAMS

SERVICES = [name for name, program in PROGRAMS.items() if program.is_service]

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("name", SERVICES)
def test_a_program_without_spark_is_exactly_once_though_killed_five_times(name: str, tmp_path: Path) -> None:
    run_and_judge(PROGRAMS[name], tmp_path)
