"""Which cases there are, suite by suite, and which of them a run is about."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from tpc.chaos.matrix.case import Case
from tpc.chaos.matrix.cases.cells import SPARK_TABLE
from tpc.chaos.matrix.cases.service_cells import SERVICE_TABLE
from tpc.chaos.matrix.cases.tables import CellTable
from tpc.errors import ConfigurationError

SUITES: Mapping[str, str] = {
    "matrix": "cell_cases:matrix",
    "pairs": "cell_cases:pairs",
    "processes": "process:cases",
    "disk": "disk:cases",
    "power": "power:cases",
    "load": "load:cases",
    "service": "service_cases:matrix",
    "service-servers": "service_servers:cases",
    "service-pairs": "service_cases:pairs",
    "service-firings": "service_cases:firings",
    "service-power": "service_power:cases",
    "service-disks": "service_special:disk_cases",
    "service-lost-disks": "service_lost_disks:cases",
    "service-standby": "service_special:standby_cases",
}
"""The suites, with the function of this package that lists their cases."""
TABLES: Mapping[str, CellTable] = {"matrix": SPARK_TABLE, "service": SERVICE_TABLE}
"""The suites that are tables of steps and faults."""


def _cases(suite: str) -> Sequence[Case]:
    module, _, name = SUITES[suite].partition(":")
    cases: Sequence[Case] = getattr(import_module(f"tpc.chaos.matrix.cases.{module}"), name)()
    return cases


def blanks(suites: Iterable[str]) -> list[dict[str, str | None]]:
    """What is not tried and why, for those of `suites` that are made from a table of cells."""
    chosen = [(suite, table) for suite, table in TABLES.items() if suite in suites]
    return [{"suite": suite, **blank.to_json()} for suite, table in chosen for blank in table.blanks()]


def chosen_cases(only: str | None, suites: Iterable[str], seed: int) -> list[Case]:
    """The cases of `suites` whose names contain `only`, in an order that follows from the seed.

    "core" as `only` means the cases of the core; the exact name of a case means this case alone.
    """
    wanted = list(suites)
    if unknown := set(wanted) - SUITES.keys():
        raise ConfigurationError(f"there is no suite {sorted(unknown)}", remedy=f"use some of {', '.join(SUITES)}.")
    known = [case for suite in wanted for case in _cases(suite)]
    if only == "core":
        chosen = [case for case in known if case.core]
    else:
        chosen = [case for case in known if case.name == only] or [c for c in known if only is None or only in c.name]
    if not chosen:
        raise ConfigurationError(f"no case of {', '.join(wanted)} has {only!r} in its name")
    random.Random(seed).shuffle(chosen)
    return chosen
