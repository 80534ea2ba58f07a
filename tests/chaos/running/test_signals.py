"""A run that is told to end clears up as after Ctrl-C."""

from __future__ import annotations

import os
import signal

import pytest

from tpc.chaos.running.signals import terminated_as_interrupt


def test_sigterm_interrupts_the_run() -> None:
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()


def test_what_sigterm_did_before_it_does_again_after_the_run() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with terminated_as_interrupt():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
