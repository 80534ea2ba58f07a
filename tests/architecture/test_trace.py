"""What an epoch of a service calls does not spread further over files than it does now."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.trace import trace_service

FILES_MAX = 84
CHANGES_MAX = 450
"""How many events a function gets at once depends on the time it takes, so a few calls come and go."""


def test_an_epoch_of_a_service_goes_through_no_more_files_than_before(tmp_path: Path) -> None:
    trace = trace_service(tmp_path)
    assert 50 < len(trace.files()) <= FILES_MAX
    assert len(trace.changes()) <= CHANGES_MAX
