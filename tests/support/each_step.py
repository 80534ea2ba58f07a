"""A test at each step of the protocol, of which `make quick` takes those around the decision."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet

AROUND_THE_DECISION = ("epoch.prepared", "epoch.decided")


def each_step(steps: Iterable[str]) -> list[ParameterSet]:
    """The steps as parameters: a death costs two starts of Python, and there are a dozen of them in a file."""
    return [pytest.param(one, marks=() if one in AROUND_THE_DECISION else pytest.mark.slow) for one in steps]
