"""The private methods of kafka-python: what is used is listed, and a version without it is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from tpc.errors import ConfigurationError
from tpc.sinks.kafka import kafka_python
from tpc.sinks.kafka.kafka_python import PRIVATE, SUPPORTED, missing_names, require_kafka_python, unfitness
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.sink import KafkaSink

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def looks_again() -> Iterator[None]:
    unfitness.cache_clear()
    yield
    unfitness.cache_clear()


def test_the_installed_version_has_them_all() -> None:
    assert missing_names() == []
    require_kafka_python("k")


def test_what_the_code_uses_of_the_client_is_what_is_listed() -> None:
    code = "".join(path.read_text() for path in (ROOT / "sinks" / "kafka").rglob("*.py"))
    chains = re.findall(r"\b_?admin\.((?:[a-z_]+\.)*[a-z_]+)\b", code) + re.findall(r"\bmanager\.([a-z_]+)", code)
    used = {name for chain in chains for name in chain.split(".")}
    public = {"__init__", "close", "stop", "api_version", "pop"}
    modules = {"client", "configs", "groups", "transactions"}
    listed = {name for names in PRIVATE.values() for name in names}
    assert listed <= used
    assert used - listed - public - modules == set()


@pytest.mark.parametrize("other", ["2.3.3", "3.0.2", "3.1.0", "4.0"])
def test_another_version_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setattr(kafka_python, "version", lambda _: other)
    for sink in (KafkaSink("t", servers="h:1"), KafkaOffsetsSink("g", servers="h:1")):
        with pytest.raises(ConfigurationError, match=f"kafka-python {re.escape(other)} is installed") as raised:
            sink.committer(pipeline=None)  # type: ignore[arg-type]  # it does not come so far
        assert SUPPORTED in raised.value.remedy
        assert raised.value.sink == sink.name


def test_a_version_that_lacks_one_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(KafkaAdminClient, "_find_coordinator_ids")
    with pytest.raises(ConfigurationError, match=r"has no KafkaAdminClient\._find_coordinator_ids"):
        require_kafka_python("k")


def test_no_client_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(kafka_python, "version", absent)
    with pytest.raises(ConfigurationError, match="no kafka-python is installed"):
        require_kafka_python("k")


def test_the_package_asks_for_the_same_versions() -> None:
    assert f'"kafka-python{SUPPORTED}"' in (ROOT / "pyproject.toml").read_text()
