"""The kit rejects the broken sinks that commit wrongly or fail in an outage."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import commits, faults

pytestmark = pytest.mark.slow


class TestBrokenCommits(BrokenSinks):
    sinks = of_modules(commits, faults)
