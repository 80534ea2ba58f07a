"""A sink for Valkey and Redis: each row becomes an entry of a stream, as the JSON of its columns in the field `row`.

A script is one act of the server. A commit is one script: it moves the staged rows into the stream and puts the marker.
"""
# ruff: noqa: D102  what the methods promise is in `tpc.sinks.authoring.Store`

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import valkey
from valkey.backoff import NoBackoff
from valkey.retry import Retry

from tpc.errors import ConfigurationError, TransientError
from tpc.settings import resolve
from tpc.sink import CheckContext
from tpc.sinks.authoring import AtomicSink, Published, Store

# KEYS: the list of staged rows, the set of staged branches, the set of markers, the target.
STAGE = """
local held = redis.call('LLEN', KEYS[1])
if held == tonumber(ARGV[2]) then
  redis.call('SADD', KEYS[2], ARGV[1])
  for i = 3, #ARGV do held = redis.call('RPUSH', KEYS[1], ARGV[i]) end
end
return held
"""
DROP = "redis.call('DEL', KEYS[1]); redis.call('SREM', KEYS[2], ARGV[1]); "
PUBLISH = (
    """
if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 1 then return 'already' end
local held, kind = redis.call('LLEN', KEYS[1]), redis.call('TYPE', KEYS[4])['ok']
if held == 0 then return 'missing' end
if held ~= tonumber(ARGV[2]) then return 'in part' end
if kind ~= 'none' and kind ~= 'stream' then return 'refused' end
for start = 0, held - 1, 1000 do
  for _, row in ipairs(redis.call('LRANGE', KEYS[1], start, start + 999)) do
    redis.call('XADD', KEYS[4], '*', 'row', row)
  end
end
redis.call('SADD', KEYS[3], ARGV[1])
"""
    + DROP
    + "return 'now'"
)
WITHDRAW = DROP + "return redis.call('SISMEMBER', KEYS[3], ARGV[1])"
SWAP = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""
LASTING = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}


class ValkeyStore(Store):
    """One connection. All keys have the target's hash tag: in a cluster they are on the target's node."""

    def __init__(self, sink: ValkeySink) -> None:
        self.target, self.prefix = sink.target, f"tpc:{{{sink.target}}}:"
        self.client: Any = valkey.Valkey(
            sink.host, sink.port, password=resolve(sink.password), decode_responses=True,
            socket_timeout=sink.timeout_s, socket_connect_timeout=sink.timeout_s,
            retry=Retry(NoBackoff(), 0),  # a push that is sent twice would be there twice
        )  # fmt: skip

    def script(self, text: str, branch: str, key: str = "", *values: Any) -> Any:
        keys = [f"{self.prefix}{kind}" for kind in (f"rows:{branch}", "staged", f"markers:{key}")]
        return self.client.eval(text, 4, *keys, self.target, branch, *values)

    def stage(self, branch: str, place: int, rows: Sequence[bytes]) -> int:
        return int(self.script(STAGE, branch, "", place, *rows))

    def held(self, branch: str) -> int:
        return int(self.client.llen(f"{self.prefix}rows:{branch}"))

    def staged(self) -> Iterator[str]:
        yield from self.client.sscan_iter(f"{self.prefix}staged", count=1000)

    def drop(self, branch: str) -> None:
        self.script(DROP, branch)

    def publish(self, branch: str, rows: int, key: str) -> Published:
        return Published(self.script(PUBLISH, branch, key, rows))

    def withdraw(self, branch: str, key: str) -> bool:
        return bool(self.script(WITHDRAW, branch, key))

    def markers(self, key: str) -> Iterator[str]:
        yield from self.client.smembers(f"{self.prefix}markers:{key}")

    def unmark(self, key: str, branches: Sequence[str]) -> None:
        self.client.srem(f"{self.prefix}markers:{key}", *branches)

    def read(self, name: str) -> str | None:
        found: str | None = self.client.get(self.prefix + name)
        return found

    def swap(self, name: str, before: str | None, after: str) -> bool:
        return bool(self.client.eval(SWAP, 1, self.prefix + name, before or "", after))

    def close(self) -> None:
        self.client.close()


class ValkeySink(AtomicSink):
    """Rows into the stream `target`. The server must keep what it has answered: see `require`."""

    kind = "valkey"
    errors = {  # noqa: RUF012  the base class declares it
        valkey.AuthenticationError: ConfigurationError,
        valkey.exceptions.NoPermissionError: ConfigurationError,
        valkey.ValkeyError: TransientError,
        OSError: TransientError,
    }

    def __init__(
        self,
        target: str,
        *,
        name: str,
        host: str = "localhost",
        port: int = 6379,
        password: Any = "",
        timeout_s: float = 10,
    ) -> None:
        super().__init__(name, timeout_s=timeout_s)
        self.target, self.host, self.port, self.password = target, host, port, password

    def describe(self) -> Mapping[str, str]:
        return {"target": f"stream {self.target} of {self.host}:{self.port}"}

    def connect(self) -> ValkeyStore:
        return ValkeyStore(self)

    def require(self, store: Any, context: CheckContext) -> None:
        for name, wanted in LASTING.items():
            found = store.client.config_get(name)[name]
            if found != wanted:
                remedy = f"set {name} {wanted}: the server forgets what it has answered otherwise."
                raise ConfigurationError(f"{name} of the server is {found}", sink=self.name, remedy=remedy)
        if (kind := store.client.type(self.target)) not in ("none", "stream"):
            remedy = "name another target, or rename this key."
            raise ConfigurationError(f"the target {self.target!r} is a {kind}", sink=self.name, remedy=remedy)
