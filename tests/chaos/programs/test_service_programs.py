"""The programs of docs/examples that run without Spark: every day two of them, killed and compared."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.chaos.programs.judged import run_and_judge
from tpc.chaos.programs.catalogue import SERVICES_A_DAY, services_of_the_day

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("number", range(SERVICES_A_DAY))
def test_a_program_without_spark_is_exactly_once_though_killed_five_times(number: int, tmp_path: Path) -> None:
    run_and_judge(services_of_the_day(date.today())[number], tmp_path)
