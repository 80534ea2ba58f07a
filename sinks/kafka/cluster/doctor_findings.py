"""What `tpc doctor` reports about a Kafka cluster: how long it keeps what a stopped pipeline needs. Only reads."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.errors import ConfigurationError
from tpc.findings import Finding, Level
from tpc.sinks.kafka.cluster.answers import RAISING_VERSION
from tpc.sinks.kafka.cluster.transaction_timeout import transaction_timeout_ms

OUTAGE_S = 3600
"""An outage after which no pipeline should have to write decided rows again."""
STOP_S = 24 * 3600
"""A stop after which Kafka should still have markers, owner entries and the outcomes of transactions."""

_IDS = "transactional.id.expiration.ms"
_MARKERS = "offsets.retention.minutes"
_UNIT_S = {_IDS: 0.001, _MARKERS: 60.0}


def doctor_findings(
    broker: Mapping[str, str], transaction_timeout_s: float | None, endtxn_version: int
) -> list[Finding]:
    """Compare a broker's settings with a sink's `transaction_timeout_s` and with outages of a usual length."""
    markers = _kept(broker, _MARKERS, "Kafka deletes markers and owner entries after it")
    return [
        _transaction_timeout(broker, transaction_timeout_s),
        _kept(broker, _IDS, "Kafka forgets the outcome of a transaction after it"),
        _outlived(broker, markers) if markers.level is Level.OK and endtxn_version < RAISING_VERSION else markers,
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
    remedy = f"raise {setting}: a decided branch that expires must be written again from the source."
    return Finding(Level.WARNING, name, seen, needed, remedy)


def _outlived(broker: Mapping[str, str], markers: Finding) -> Finding:
    """Whether markers outlive ids; it matters on brokers where the id itself does not show a commit."""
    if _kept_s(broker, _MARKERS) > _kept_s(broker, _IDS):
        return markers
    return Finding(
        Level.WARNING,
        _MARKERS,
        markers.seen,
        f"more than {_IDS} ({_in_words(_kept_s(broker, _IDS))}) on brokers before 4.0",
        f"raise {_MARKERS} on the brokers: if a marker is deleted before its id, a committed branch may look "
        "uncommitted after a stop of that length, and its rows are written again.",
    )


def _kept_s(broker: Mapping[str, str], name: str) -> float:
    return int(broker[name]) * _UNIT_S[name]


def _kept(broker: Mapping[str, str], name: str, why: str) -> Finding:
    kept_s = _kept_s(broker, name)
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
