"""Proxies in front of servers that are known by an address, and the address that leads through them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from tpc.chaos.proxy.mongo_framing import MONGO
from tpc.chaos.proxy.postgres_framing import POSTGRES
from tpc.chaos.proxy.proxy import HOST, Proxy


@contextmanager
def proxied_postgres(dsn: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy in front of the server of a DSN, and one in the same form that leads through it, without encryption.

    `dsn` is in libpq's words or a URL, SQLAlchemy's included.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    _, is_url, rest = dsn.partition("://")
    settings = conninfo_to_dict(f"postgresql://{rest}" if is_url else dsn)
    with Proxy(str(settings.get("host") or HOST), int(settings.get("port") or 5432), POSTGRES) as proxy:
        if not is_url:
            yield proxy, make_conninfo(dsn, host=HOST, port=proxy.port, sslmode="disable")
            return
        parts = urlsplit(dsn)
        yield proxy, _through(parts, proxy, dict(parse_qsl(parts.query)) | {"sslmode": "disable"})


@contextmanager
def proxied_mongo(uri: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy in front of the first server of a URI, and a URI that leads through it.

    `directConnection` is in it: a client of a replica set would go round the proxy.
    """
    parts = urlsplit(uri)
    host, _, port = parts.netloc.rpartition("@")[2].partition(",")[0].partition(":")
    query = dict(parse_qsl(parts.query)) | {"directConnection": "true"}
    query.pop("replicaSet", None)
    with Proxy(host, int(port or 27017), MONGO) as proxy:
        yield proxy, _through(parts._replace(path=parts.path or "/"), proxy, query)


def _through(parts: SplitResult, proxy: Proxy, query: dict[str, str]) -> str:
    """A URL with the same credentials that leads to the proxy."""
    credentials, at, _ = parts.netloc.rpartition("@")
    netloc = f"{credentials}{at}{HOST}:{proxy.port}"
    return parts._replace(netloc=netloc, query=urlencode(query)).geturl()
