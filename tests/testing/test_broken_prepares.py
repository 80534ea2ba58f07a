"""The kit rejects the broken sinks that prepare, list or abort wrongly."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import aborts, listings, prepares

pytestmark = pytest.mark.slow


class TestBrokenPrepares(BrokenSinks):
    sinks = of_modules(aborts, listings, prepares)
