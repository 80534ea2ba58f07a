"""What `tpc doctor` tells of a Kafka cluster: how long it keeps what a stopped pipeline comes back to. Only reads."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.errors import ConfigurationError
from tpc.findings import Finding, Level
from tpc.sinks.kafka.cluster.facts import transaction_timeout_ms

OUTAGE_S = 3600
"""An outage that every pipeline should come through without producing decided rows again."""
STOP_S = 24 * 3600
"""A stop after which markers, owner entries and the ends of transactions should still be known."""


def limits(broker: Mapping[str, str], transaction_timeout_s: float | None) -> list[Finding]:
    """A broker's settings against a sink's `transaction_timeout_s` and against outages of a usual length."""
    return [
        _transaction_timeout(broker, transaction_timeout_s),
        _kept(broker, "transactional.id.expiration.ms", 0.001, "how a transaction ended is forgotten after it"),
        _kept(broker, "offsets.retention.minutes", 60, "markers and owner entries are forgotten after it"),
    ]


def _transaction_timeout(broker: Mapping[str, str], asked_s: float | None) -> Finding:
    name = "transaction.max.timeout.ms"
    seen = f"{broker[name]} ms = {_in_words(int(broker[name]) / 1000)}"
    try:
        timeout_s = transaction_timeout_ms(broker, None if asked_s is None else int(asked_s * 1000)) / 1000
    except ConfigurationError as error:
        return Finding(Level.PROBLEM, name, seen, f"transaction_timeout_s={asked_s:g}", error.remedy)
    if asked_s is not None:
        seen += f"; the sink asks for {_in_words(timeout_s)}"
    needed = f"more than your longest outage; {_in_words(OUTAGE_S)} at least"
    if timeout_s >= OUTAGE_S:
        return Finding(Level.OK, name, seen, needed)
    setting = name + " on the brokers"
    if asked_s is not None:
        setting = (
            "transaction_timeout_s" if int(broker[name]) / 1000 >= OUTAGE_S else f"{setting} and transaction_timeout_s"
        )
    remedy = f"raise {setting}: a decided branch that expires has to be produced again from the source."
    return Finding(Level.WARNING, name, seen, needed, remedy)


def _kept(broker: Mapping[str, str], name: str, unit_s: float, why: str) -> Finding:
    kept_s = int(broker[name]) * unit_s
    seen = f"{broker[name]} {name.rpartition('.')[2]} = {_in_words(kept_s)}"
    needed = f"more than your longest stop; {_in_words(STOP_S)} at least"
    if kept_s >= STOP_S:
        return Finding(Level.OK, name, seen, needed)
    return Finding(Level.WARNING, name, seen, needed, f"raise {name} on the brokers: {why}.")


def _in_words(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:g} s"
