"""The kit rejects the broken sinks that change rows on their way."""

from __future__ import annotations

import pytest

from tests.testing.rejections import BrokenSinks, of_modules
from tpc.testing.broken import data, validators
from tpc.testing.effort import Effort

pytestmark = pytest.mark.slow


class TestBrokenData(BrokenSinks):
    sinks = of_modules(data, validators)
    effort = Effort.NORMAL
