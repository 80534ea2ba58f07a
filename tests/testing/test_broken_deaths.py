"""The kit rejects the broken sinks that leave halves behind when they die."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import deaths
from tpc.testing.effort import Effort

pytestmark = pytest.mark.slow


class TestBrokenByDeaths(BrokenSinks):
    sinks = of_modules(deaths)
    effort = Effort.NORMAL
