"""A service says in one line of its log that it is recovered and ready, and where it goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.coordinator.service.program import Die, Numbers, die


def test_a_start_logs_one_line_once_it_is_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    numbers = Numbers(tmp_path, 300)
    with caplog.at_level(logging.INFO):
        numbers.run(every=100)
    assert caplog.text.count("is recovered and ready") == 1
    assert "pipeline numbers#1 is recovered and ready: generation 1, next epoch 0" in caplog.text
    numbers.values += range(300, 400)
    with pytest.raises(Die):
        numbers.run_with({"epoch.decided": die})
    with caplog.at_level(logging.INFO):
        numbers.run()
    assert "pipeline numbers#1 is recovered and ready: generation 3, next epoch 4" in caplog.text


def test_one_that_does_not_recover_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    numbers = Numbers(tmp_path, 3)
    with caplog.at_level(logging.INFO), pytest.raises(Die):
        numbers.run_with({"recovery.reconciled": die})
    assert "ready" not in caplog.text
