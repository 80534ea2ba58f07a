"""The kit rejects the broken sinks whose owner entry fences no coordinator."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import owners
from tpc.testing.effort import Effort

pytestmark = pytest.mark.slow


class TestBrokenOwners(BrokenSinks):
    sinks = of_modules(owners)
    effort = Effort.NORMAL
