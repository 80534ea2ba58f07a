"""The kit rejects the broken sinks that show their defect with many branches, or in a second process."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import processes, sizes
from tpc.testing.effort import Effort

pytestmark = pytest.mark.slow


class TestBrokenSizes(BrokenSinks):
    sinks = of_modules(sizes, processes)
    effort = Effort.NORMAL
