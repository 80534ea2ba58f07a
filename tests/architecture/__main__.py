"""`make architecture`: draw the parts of `docs/ARCHITECTURE.md` that follow from the source."""

from __future__ import annotations

import sys

from tests.architecture.picture import DOCUMENT, write

changed = write()
sys.stdout.write(f"{DOCUMENT}: {'drawn again' if changed else 'as it should be'}\n")
