"""How much the kit tries: `TPC_KIT=quick`, `normal` (the default) or `thorough`; `tpc sink check` has options for it.

The numbers of a kit (`deaths`, `race_rounds` ...) are those of a thorough run. Others are bounded by what stands here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum

VARIABLE = "TPC_KIT"


class Effort(str, Enum):
    """From the inner loop of somebody who writes a sink to the last run before it is used."""

    QUICK = "quick"
    """Seconds: what takes longer is skipped with its reason."""
    NORMAL = "normal"
    """Under a minute on a local server; every class of defect is tried."""
    THOROUGH = "thorough"
    """All numbers as the kit gives them."""


BOUNDS: Mapping[Effort, Mapping[str, int]] = {
    Effort.QUICK: {
        "deaths": 2,
        "schemas": 3,
        "race_rounds": 5,
        "large_branch_rows": 5_000,
        "death_rows": 2_000,
        "reply_rows": 2_000,
    },
    Effort.NORMAL: {"deaths": 12, "race_rounds": 30, "resource_rounds": 40, "many_branches": 240},
    Effort.THOROUGH: {},
}
"""The most of each number."""


def effort() -> Effort:
    """What the environment asks for. Raises `ValueError` for a word that is none of the three."""
    return Effort(os.environ.get(VARIABLE, Effort.NORMAL.value))
