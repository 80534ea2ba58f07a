"""A terminal of a demo whose text is kept."""

from __future__ import annotations

import io

from rich.console import Console


def console_into(text: io.StringIO) -> Console:
    """A console that writes to `text`, as wide as no line of a demo is."""
    return Console(file=text, width=200, highlight=False)
