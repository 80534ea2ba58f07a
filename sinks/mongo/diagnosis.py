"""What `tpc doctor` tells of a MongoDB server: its version, whether it runs transactions, its clock. Only reads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tpc.findings import Finding, Level, clocks
from tpc.sinks.mongo.check import explained
from tpc.sinks.mongo.connection import Client, runs_transactions

if TYPE_CHECKING:
    from tpc.sinks.mongo.sink import MongoSink


def findings(sink: MongoSink, client: Client) -> list[Finding]:
    """Ask the server. Raises what `check` raises."""
    with explained(sink):
        version = str(client.server_info()["version"])
        asked_s = time.time()
        answer = client.admin.command("isMaster")  # "hello" is unknown before 4.4; every version answers this
        answered_s = time.time()
        transactional = runs_transactions(client)
    told = [Finding(Level.OK, "MongoDB", version), _transactions(sink, transactional)]
    if "localTime" in answer:
        told.append(clocks(answer["localTime"].timestamp(), asked_s, answered_s))
    return told


def _transactions(sink: MongoSink, transactional: bool) -> Finding:
    about, needed = "transactions", f"a replica set or a sharded cluster for mode={sink.mode!r}"
    if transactional:
        return Finding(Level.OK, about, "the server runs them", needed)
    if sink.mode == "guarded":
        return Finding(Level.OK, about, "the server is standalone", "nothing for mode='guarded'")
    level = Level.PROBLEM if sink.mode == "transaction" else Level.WARNING
    remedy = "make it a replica set (one member will do): without, readers see an epoch only gradually."
    return Finding(level, about, "the server is standalone", needed, remedy)
