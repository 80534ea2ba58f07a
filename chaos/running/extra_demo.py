"""The packages that only the extra `demo` brings: where one is missing, the error says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tpc.errors import NotInstalledError


@contextmanager
def of_extra_demo() -> Iterator[None]:
    """Around imports of such packages. Raises `NotInstalledError` where one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "tpc"):  # a mistake of this library, which no installation repairs
            raise
        raise NotInstalledError(f"{package} is not installed", remedy="pip install 'tpc[demo]'.") from None
