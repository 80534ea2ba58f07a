"""Takes the secrets that a pipeline's sinks use out of a text, before it goes into a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere, resolve
from tpc.sink import Sink

HIDDEN = "***"


def hiding(sinks: Iterable[Sink]) -> Callable[[str], str]:
    """A function that replaces the passwords in the sinks' settings, and whatever else they take from variables that is
    no address.
    """
    secrets = sorted({secret for sink in sinks for secret in _secrets(vars(sink)) if secret}, key=len, reverse=True)

    def hide(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, HIDDEN)
        return text

    return hide


def _secrets(settings: Mapping[str, Any]) -> Iterator[str]:
    for value in settings.values():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif hasattr(value, "client") and hasattr(value, "servers"):
            yield from _secrets(
                {"servers": value.servers, **{k: v for k, v in value.client.items() if isinstance(v, Elsewhere)}}
            )
        elif isinstance(value, str | Elsewhere):
            yield from _in_setting(value)


def _in_setting(setting: str | Elsewhere) -> Iterator[str]:
    try:
        value = resolve(setting)
    except ConfigurationError:
        return
    if "://" in value:
        password = _password_of_url(value)
        yield from {password, unquote(password)}
    elif "=" in value:
        yield _password_of_words(value)
    elif isinstance(setting, Elsewhere) and not _is_address(value):
        yield value


def _password_of_url(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _password_of_words(dsn: str) -> str:
    """Of libpq's form: `host=... password='...'`."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return str(conninfo_to_dict(dsn).get("password") or "")
    except psycopg.Error:
        return ""


def _is_address(value: str) -> bool:
    """`host:port`, some of them with commas between: not secret, and needed to read an error."""
    return all(part.rpartition(":")[2].strip().isdigit() for part in value.split(","))
