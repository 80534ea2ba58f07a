"""How the log reaches an object store through `obstore`: stores with deadlines, and what their errors prove.

Every request is sent once: after several the last answer says nothing about the others. (Left alone, obstore sends a
conditional put again when the connection broke while it waited for the answer.) The words of obstore hold URLs, which
may be signed, and replies, which may name keys: only status, code and kind of an error leave this module.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere, resolve
from tpc.urls import without_user

if TYPE_CHECKING:
    from obstore.store import ObjectStore

logger = logging.getLogger(__name__)

SCHEMES = {
    **dict.fromkeys(("s3", "s3a"), "S3Store"),
    "gs": "GCSStore",
    **dict.fromkeys(("az", "adl", "azure", "abfs", "abfss"), "AzureStore"),
    "memory": "MemoryStore",
}
"""What the URL of a log may begin with, and the store that obstore makes of it."""
_QUERY = re.compile(r"[?#].*", re.DOTALL)
"""What a store may be told in its URL: a key, say."""
_ENVIRONMENT = {"S3Store": "AWS", "GCSStore": "GOOGLE", "AzureStore": "AZURE"}
_CLIENT_OPTIONS = ("allow_http", "allow_invalid_certificates", "proxy_url", "proxy_ca_certificate", "proxy_excludes")
_NO_FSYNC = "LocalStore"
_NO_CONDITION = "HTTPStore"
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_REFUSALS_THAT_PROVE_NOTHING = (408, 409, 412)
"""Timed out half-way, a conflict with another put, a condition that failed: the object may be ours."""


def opened(setting: ObjectStore | str | Elsewhere, timeout_s: float) -> ObjectStore:
    """The store, with our deadlines in the place of its own. Raises `ConfigurationError`."""
    if not isinstance(setting, (str, Elsewhere)):
        return _bounded(setting, timeout_s)
    try:
        import obstore  # noqa: F401  only whether it is installed
    except ImportError:
        raise ConfigurationError("obstore is not installed", remedy="pip install 'tpc[object-store]'.") from None
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    text = resolve(setting)
    scheme = text.partition(":")[0].lower()
    if scheme not in SCHEMES:
        raise ConfigurationError(
            f"no log is kept at a URL that begins with {scheme!r}",
            remedy=f"use one of {', '.join(SCHEMES)}; for a local directory, LocalLog.",
        )
    try:
        if SCHEMES[scheme] not in _ENVIRONMENT:
            return from_url(text)
        return from_url(text, **_sent_once(timeout_s, _client_options(SCHEMES[scheme])))
    except (BaseError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"the store at {shown(setting)} cannot be opened: {type(error).__name__}",
            remedy="check the URL, and the store's settings in the environment of this process.",
        ) from None


def _bounded(store: ObjectStore, timeout_s: float) -> ObjectStore:
    kind = type(store).__name__
    if kind == _NO_CONDITION:
        raise no_conditional_put(shown(store))
    if kind == _NO_FSYNC:
        logger.warning("%s does not fsync: what is put can be lost in a power cut. Use LocalLog.", shown(store))
    if kind not in _ENVIRONMENT:
        return store
    remote: Any = store  # the three classes have and take the same
    settings = {"prefix": remote.prefix, "config": remote.config, "credential_provider": remote.credential_provider}
    bounded: ObjectStore = type(remote)(**settings, **_sent_once(timeout_s, remote.client_options))
    return bounded


def _client_options(kind: str) -> dict[str, str]:
    """Those of the environment, which obstore leaves aside once it is given any."""
    named = {option: os.environ.get(f"{_ENVIRONMENT[kind]}_{option.upper()}") for option in _CLIENT_OPTIONS}
    return {option: value for option, value in named.items() if value is not None}


def _sent_once(timeout_s: float, client_options: Mapping[str, Any] | None) -> dict[str, Any]:
    limit = timedelta(seconds=timeout_s)
    options = {**(client_options or {}), "timeout": limit, "connect_timeout": limit}
    return {"client_options": options, "retry_config": {"max_retries": 0}}


def no_conditional_put(where: str) -> ConfigurationError:
    """A store that would overwrite a decision."""
    return ConfigurationError(
        f"the store at {where} does not honour a conditional put (If-None-Match: *)",
        remedy="use a store or a version of it that does, PostgreSQL (SqlLog) or a local disk (LocalLog).",
    )


def delete(store: ObjectStore, path: str) -> None:
    """Delete an object, which may be gone already."""
    import obstore

    with suppress(FileNotFoundError):  # some stores say so
        obstore.delete(store, path)


def is_in_memory(setting: ObjectStore | str | Elsewhere) -> bool:
    """Whether the store is in the memory of one process."""
    if isinstance(setting, (str, Elsewhere)):
        return resolve(setting).lower().startswith("memory:")
    return type(setting).__name__ == "MemoryStore"


def in_memory() -> ConfigurationError:
    """The error of a store that ends with its process."""
    return ConfigurationError(
        "the object store of the log is in memory, which is gone with its process",
        remedy="use 's3://bucket/prefix' (also gs, az), or leave out log= for the directory in the checkpoint.",
    )


def shown(setting: ObjectStore | str | Elsewhere) -> str:
    """Where a store is, for people: scheme, bucket and path, nothing else of a URL."""
    if isinstance(setting, (str, Elsewhere)):
        try:
            text = resolve(setting)
        except ConfigurationError:
            return repr(setting)
        return _QUERY.sub("", without_user(text)).rstrip("/") if "://" in text else "a URL that cannot be read"
    kind = type(setting).__name__
    config = getattr(setting, "config", {})
    places = [config.get("bucket") or config.get("container_name"), getattr(setting, "prefix", None)]
    return "/".join([kind, *(str(place).strip("/") for place in places if place)])


def proves_nothing_was_put(error: Exception) -> bool:
    """Whether a put that ended so was certainly not carried out: never connected, or refused by the server."""
    text = str(error)
    if status := _STATUS.search(text):
        return 400 <= int(status[1]) < 500 and int(status[1]) not in _REFUSALS_THAT_PROVE_NOTHING
    if kind := _KIND.search(text):
        return kind[1] == "Connect"
    return bool(_OS_ERROR.search(text))  # the local store puts by a link, which is its last step


def said(error: Exception) -> str:
    """What an error of obstore says, without URLs, replies and headers."""
    text = str(error)
    status, code, kind, number = (pattern.search(text) for pattern in (_STATUS, _CODE, _KIND, _OS_ERROR))
    parts = [
        f"status {status[1]}" if status else "",
        code[1] if code else "",
        f"HTTP {kind[1].lower()} error" if kind else "",
        os.strerror(int(number[1])) if number else "",
    ]
    return f"{type(error).__name__} ({', '.join(part for part in parts if part) or 'no details'})"
