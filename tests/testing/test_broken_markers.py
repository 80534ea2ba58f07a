"""The kit rejects the broken sinks that read markers wrongly, or lose rows with the power."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import checks, disks, markers

pytestmark = pytest.mark.slow


class TestBrokenMarkers(BrokenSinks):
    sinks = of_modules(checks, disks, markers)
