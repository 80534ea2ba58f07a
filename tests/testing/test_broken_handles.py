"""The kit rejects the broken sinks that confuse handles or owners, or are wrong about sizes or processes."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import handles, owners, processes, sizes
from tpc.testing.effort import Effort

pytestmark = pytest.mark.slow


class TestBrokenHandles(BrokenSinks):
    sinks = of_modules(handles, sizes, processes, owners)
    effort = Effort.NORMAL
