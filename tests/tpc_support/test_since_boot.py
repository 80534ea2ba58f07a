"""Moments since the boot: a process began before it asks, and this boot is always the same one."""

from __future__ import annotations

import time

from tpc.support import since_boot


def test_this_process_began_before_now_and_the_clock_goes_on_evenly() -> None:
    began, before = since_boot.process_began(), since_boot.now()
    assert 0 < began < before + 0.02
    time.sleep(0.05)
    assert 0.04 <= since_boot.now() - before < 30
    assert since_boot.process_began() == began
    assert since_boot.which() == since_boot.which()
