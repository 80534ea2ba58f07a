"""Which cases there are, suite by suite, and which of them a run is about."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from tpc.chaos.matrix.case import Case
from tpc.errors import ConfigurationError

SUITES: Mapping[str, str] = {
    "matrix": "cell_cases:matrix",
    "pairs": "cell_cases:pairs",
    "processes": "process:cases",
    "disk": "disk:cases",
    "power": "power:cases",
    "load": "load:cases",
}
"""The suites, with the function of this package that lists their cases."""


def _cases(suite: str) -> Sequence[Case]:
    module, _, name = SUITES[suite].partition(":")
    cases: Sequence[Case] = getattr(import_module(f"tpc.chaos.matrix.cases.{module}"), name)()
    return cases


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
