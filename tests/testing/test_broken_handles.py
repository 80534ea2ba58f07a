"""The kit rejects the broken sinks that take one handle for another."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import handles

pytestmark = pytest.mark.slow


class TestBrokenHandles(BrokenSinks):
    sinks = of_modules(handles)
