"""What of a URL may be shown and put on record: not the user, and not the password, however it is written.

A password that should be percent-encoded and is not (it holds a slash, an @, a space) stands where parsers of URLs see
a host or a path. So they are not asked.
"""

from __future__ import annotations

import re

CONTAINER_FIRST = ("abfs", "abfss", "wasb", "wasbs")
"""Before the @ of such a URL stands no user but the container, which is part of the place."""
_BEGINS = re.compile(r"(?=(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://)")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.%-]+)"
_END_OF_HOST = r"(?::\d+)?(?:[/?#,;]|$)"
_PLAIN_HOST = re.compile(_HOST + _END_OF_HOST)
_NAME_AND_COLON = re.compile(r"[^/:@]*:")


def without_user(text: str) -> str:
    """The text with no user and no password in any URL of it.

    A password ends at the first @ after which a host stands. Where no user is, and a @ is in a path, all stays.
    """
    return "".join(_without_user(each) for each in _BEGINS.split(text))


def has_password(text: str) -> bool:
    """Whether a URL in it holds one."""
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
    """Where the host begins after the user; 0 where there is no user."""
    is_in_authority = "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not is_in_authority and not _has_password(rest):
        return 0
    ends = [found.end() for found in re.finditer("@", rest)]
    return next((end for end in ends if _PLAIN_HOST.match(rest, end)), ends[-1] if ends else 0)


def _has_password(rest: str) -> bool:
    """Whether a colon stands there that is not the one before a port."""
    return _NAME_AND_COLON.match(rest) is not None and _PLAIN_HOST.match(rest) is None
