"""The MongoDB server, or what stands in for it and says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import DuplicateKeyError

from tests.conftest import CANNOT_BE_HAD
from tests.support.mongo_database import MongoDatabase
from tpc.chaos.servers.mongo import MongodServer, MongoJavaServer, mongo_server
from tpc.chaos.servers.server import LocalServer


def started(server: LocalServer) -> LocalServer:
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no MongoDB: {error}")
    return server


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[MongoJavaServer]:
    server = MongoJavaServer(tmp_path / "mongo")
    started(server)
    yield server
    server.kill()


def client(server: LocalServer) -> pymongo.MongoClient[Any]:
    return pymongo.MongoClient(server.address, serverSelectionTimeoutMS=10_000)


def test_documents_survive_an_orderly_stop(stand_in: MongoJavaServer) -> None:
    with client(stand_in) as first:
        first.d.c.insert_many([{"_id": number} for number in range(1000)])
    stand_in.restart()
    with client(stand_in) as second:
        assert second.d.c.count_documents({}) == 1000


def test_the_way_in_for_the_set_up_is_closed(stand_in: MongoJavaServer) -> None:
    gateway_port = int(stand_in.log_path.read_text().split()[0])
    with pytest.raises(OSError, match="refused"):
        _connect(gateway_port)
    assert stand_in.log_path.stat().st_mode & 0o077 == 0


def _connect(port: int) -> None:
    import socket

    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_duplicate_keys_and_increments_are_as_in_mongodb(mongo: MongoDatabase) -> None:
    mongo.db.c.update_one({"_id": "JFK"}, {"$inc": {"flights": 2}}, upsert=True)
    mongo.db.c.update_one({"_id": "JFK"}, {"$inc": {"flights": 3}}, upsert=True)
    assert mongo.db.c.find_one() == {"_id": "JFK", "flights": 5}
    with pytest.raises(DuplicateKeyError):
        mongo.db.c.insert_one({"_id": "JFK"})


@pytest.mark.skipif(shutil.which("mongod") is not None, reason="there is a mongod on the PATH")
def test_without_a_mongod_the_stand_in_is_chosen_and_tells_its_limits(tmp_path: Path) -> None:
    server = mongo_server(tmp_path)
    assert isinstance(server, MongoJavaServer)
    assert any("no transactions" in note for note in server.notes)


@pytest.mark.skipif(shutil.which("mongod") is None, reason="there is no mongod on the PATH")
@pytest.mark.stack  # starts what it needs by itself
def test_a_mongod_is_preferred_and_runs_transactions_and_survives_a_kill(tmp_path: Path) -> None:
    server = mongo_server(tmp_path)
    assert isinstance(server, MongodServer)
    try:
        started(server)
        with client(server) as first:
            first.d.create_collection("c")
            with first.start_session() as session, session.start_transaction():
                first.d.c.insert_one({"_id": 1}, session=session)
        server.kill()
        server.start()
        with client(server) as second:
            assert second.d.c.count_documents({}) == 1
    finally:
        server.kill()
