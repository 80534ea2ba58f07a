"""Which log a text names: a directory, a database or an object store. For the command line's `--log`."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import ConfigurationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_DATABASES = ("postgresql", "postgres", "sqlite")


def open_log(place: str) -> Log:
    """The log at `place`. Opens nothing. Raises `ConfigurationError` for a place that is none.

    | place | log |
    |---|---|
    | a path, `file:///path` | `LocalLog` |
    | `postgresql://...#PIPELINE`, `sqlite:////path.db#PIPELINE` | `SqlLog` |
    | `s3://bucket/prefix`, `gs://...`, `az://...`, `memory:///prefix` | `ObjectLog` |

    After the `#` stands what `pipeline=` is in `SqlLog`; its table is the default one.
    """
    url = _SCHEME.match(place)
    if not place or "\0" in place:
        raise _no_place("an empty text" if not place else "a path with a NUL in it")
    if url is None:
        return LocalLog(place)
    scheme = url[1].lower()
    if scheme.partition("+")[0] in _DATABASES:
        return _in_database(place)
    if scheme == "file":
        return _in_directory(place)
    from tpc.coordinator.kernel.log.object_store import SCHEMES

    if scheme not in SCHEMES:
        raise _no_place(f"a URL that begins with {scheme!r}")
    from tpc.coordinator.kernel.log.objects import ObjectLog

    return ObjectLog(place, prefix="")


def _in_database(place: str) -> Log:
    from tpc.coordinator.kernel.log.sql import SqlLog

    url, _, pipeline = place.rpartition("#")
    if not url or not pipeline:
        raise ConfigurationError(
            "the URL of the log's database does not name a pipeline (the URL is not shown here)",
            remedy="append the name that SqlLog has as `pipeline`: 'postgresql://host/database#orders'.",
        )
    if "@" in pipeline:
        raise ConfigurationError(
            "the URL of the log's database has an @ after its # (the URL is not shown here)",
            remedy="a # in a password is written %23, an @ %40; after the last # stands the name of the pipeline.",
        )
    return SqlLog(url, pipeline=unquote(pipeline))


def _in_directory(place: str) -> Log:
    parts = urlsplit(place)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise _no_place("a file URL with a host in it")
    return LocalLog(Path(unquote(parts.path)))


def _no_place(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"no log is kept at {what}",
        remedy="give a local directory, postgresql://host/database#PIPELINE, sqlite:////path.db#PIPELINE, or "
        "s3://bucket/prefix (also gs, az).",
    )
