"""The token that a browser must show: where it is read, and what it must be."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from tpc.coordinator.operations.address import names_this_machine
from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere, resolve

logger = logging.getLogger(__name__)

TOKEN_VARIABLE = "TPC_UI_TOKEN"
TOKEN_LENGTH_MIN = 16


def read_token(given: str | Elsewhere | Path | None) -> str | None:
    """The token that is given, or in the file of this path, or else in `TOKEN_VARIABLE`; None where there is none.

    Raises `ConfigurationError` for one that cannot be read, and for a short one.
    """
    if given is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if token is None:
            return None
    elif isinstance(given, Path):
        token, where = _content(given), str(given)
    else:
        token, where = resolve(given), "page_token" if isinstance(given, str) else repr(given)
    token = token.strip()
    if not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            f"the token in {where} has characters that no header of HTTP carries unchanged",
            remedy="make one of ASCII letters and digits: `openssl rand -hex 32`.",
        )
    if len(token) < TOKEN_LENGTH_MIN:
        raise ConfigurationError(
            f"the token in {where} has fewer than {TOKEN_LENGTH_MIN} characters",
            remedy="make one that cannot be guessed: `openssl rand -hex 32`.",
        )
    return token


def _content(file: Path) -> str:
    try:
        content, mode = file.read_text(encoding="utf-8"), file.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the token cannot be read from {file}: {getattr(error, 'strerror', 'it is no text')}",
            remedy="give a file that holds the token and nothing else.",
        ) from error
    if mode & stat.S_IROTH:
        logger.warning(
            "every user of this machine can read the token in %s (mode %04o). To do: chmod o= %s, and make a new "
            "token if somebody may have read it",
            *(file, stat.S_IMODE(mode), file),
        )
    return content


def require_token(token: str | None, host: str) -> None:
    """Raise `ConfigurationError` where other machines can reach `host`, and there is no token."""
    if token is None and not names_this_machine(host):
        raise ConfigurationError(
            f"other machines can reach {host}, and there is no token",
            remedy=f"give {TOKEN_VARIABLE} in the environment, `tpc.Serve` a page_token=, or `tpc ui` a --token-file; "
            "or leave the host out.",
        )
