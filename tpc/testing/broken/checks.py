"""Sinks that refuse a target which is good."""

from __future__ import annotations

import time

from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink


class LooksThenMakes(DirectorySink):
    """Makes its directories when it has seen that they are missing: two at one moment get into each other's way."""

    class Committer(DirectoryCommitter):
        """Two steps where one act is due."""

        def _make(self) -> None:
            """In between, others look too."""
            directory = self.sink.root / "prepared"
            if not directory.exists():
                time.sleep(0.05)
                directory.mkdir(parents=True)
            super()._make()

    committer_class = Committer
