"""Removes the user and the password from URLs before they are shown or stored, however they are written.

Parsers of URLs are no help: if a password holds a slash, an @ or a space that is not percent-encoded, they take a part
of it for a host or a path.
"""

from __future__ import annotations

import re

CONTAINER_FIRST = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes whose URLs have the container before the @, not a user; it is part of the place."""
_BEGINS = re.compile(r"(?=(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://)")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.%-]+)"
_END_OF_HOST = r"(?::\d+)?(?:[/?#,;]|$)"
_PLAIN_HOST = re.compile(_HOST + _END_OF_HOST)
_NAME_AND_COLON = re.compile(r"[^/:@]*:")


def without_user(text: str) -> str:
    """The text without user and password in any URL.

    A password ends at the first @ that is followed by a host. A URL without a user and with an @ in its path stays.
    """
    return "".join(_without_user(each) for each in _BEGINS.split(text))


def has_password(text: str) -> bool:
    """Whether a URL in the text holds a password."""
    found = [url[2] for url in map(_URL.match, _BEGINS.split(text)) if url]
    return any(_has_password(rest) and _end_of_user(rest) for rest in found)


def _without_user(text: str) -> str:
    url = _URL.match(text)
    if url is None or not (end := _end_of_user(url[2])):
        return text
    scheme, rest = url.groups()
    container = rest[: end - 1].partition(":")[0] if scheme.lower() in CONTAINER_FIRST else ""
    return f"{scheme}://{container}{'@' if container else ''}{rest[end:]}"


def _end_of_user(rest: str) -> int:
    """The index at which the host begins after the user; 0 if there is no user."""
    is_in_authority = "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not is_in_authority and not _has_password(rest):
        return 0
    ends = [found.end() for found in re.finditer("@", rest)]
    return next((end for end in ends if _PLAIN_HOST.match(rest, end)), ends[-1] if ends else 0)


def _has_password(rest: str) -> bool:
    """Whether there is a colon other than the one before a port."""
    return _NAME_AND_COLON.match(rest) is not None and _PLAIN_HOST.match(rest) is None
