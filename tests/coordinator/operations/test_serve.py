"""What a job serves is one value: checked when it is made, opened with the job or not at all, closed with it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

import tpc
from tests.coordinator.operations.monitoring.test_health import HOST, free_port, got
from tests.coordinator.test_start_health import PipelineWithoutSpark
from tpc.coordinator.kernel.callbacks import Callbacks
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.listeners import Listener
from tpc.coordinator.kernel.observers import listeners_of
from tpc.coordinator.operations.address import PORT_MAX, Address, address_of
from tpc.coordinator.operations.monitoring.health import LIVENESS, READINESS
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink
from tpc.sources import IterableSource

TOKEN = "a-token-not-to-be-seen"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPC_UI_TOKEN", raising=False)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return PipelineWithoutSpark(tmp_path / "checkpoint", 0)


def close(listeners: list[Listener]) -> None:
    for listener in listeners:
        listener.close()


# The value ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, PORT_MAX), st.sampled_from(["127.0.0.1", "0.0.0.0", "::1", "fe80::1", "localhost", "a.example"]))
def test_an_address_is_a_port_of_the_host_or_has_its_own(port: int, host: str) -> None:
    assert address_of("metrics", port, host) == Address(host, port)
    assert address_of("metrics", str(Address(host, port)), "elsewhere") == Address(host, port)


@given(
    st.one_of(
        st.integers(max_value=-1),
        st.integers(min_value=PORT_MAX + 1),
        st.booleans(),
        st.floats(),
        st.binary(),
        st.sampled_from(
            ["", "8080", ":8080", "::1:8080", "[]:80", "[::1]", "[::1:80", "[a]:80", "a:", "a:-1", "a:65536"]
        ),
        st.sampled_from(["a:\u0663", "a:1_0", "a: 80", "a:80 ", "::", "a:+80", "[[::1]]:80", "a:" + "9" * 5000]),
    )
)
def test_what_is_no_port_and_no_address_is_refused_by_name(wrong: Any) -> None:
    for what in ("metrics", "health", "page"):
        with pytest.raises(ConfigurationError, match=f"{what}=.*no place to serve"):
            tpc.Serve(**{what: wrong})


def test_two_at_one_address_are_refused_and_two_at_any_free_port_are_not() -> None:
    with pytest.raises(ConfigurationError, match=r"health and metrics are both at 127\.0\.0\.1:8080"):
        tpc.Serve(metrics=8080, health="127.0.0.1:8080")
    tpc.Serve(metrics=0, health=0, page=0)
    tpc.Serve(metrics=8080, health="[::1]:8080")


@pytest.mark.parametrize("silent_after_s", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_a_length_of_time_that_cannot_be_is_refused(silent_after_s: float) -> None:
    with pytest.raises(ConfigurationError, match="silent_after_s="):
        tpc.Serve(health=0, silent_after_s=silent_after_s)


@pytest.mark.parametrize("place", [{"page": 0, "host": "0.0.0.0"}, {"page": "[::]:0"}, {"page": "a.example:0"}])
def test_a_page_that_others_can_reach_needs_a_token_that_can_be_read_at_once(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for token, told in (
        (None, "there is no token"),
        (tpc.env("NOT_SET_HERE"), "NOT_SET_HERE"),
        (tpc.secret_file(str(tmp_path / "none")), "cannot be read"),
        ("short", "fewer than 16 characters"),
    ):
        with pytest.raises(ConfigurationError, match=told) as caught:
            tpc.Serve(**place, page_token=token)
        assert "short" not in str(caught.value)
    tpc.Serve(**place, page_token=TOKEN)
    monkeypatch.setenv("TPC_UI_TOKEN", TOKEN)
    tpc.Serve(**place)


def test_a_page_of_this_machine_needs_none_and_reads_none_before_the_start() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        tpc.Serve(page=0, host=host)
    tpc.Serve(page=0, page_token=tpc.env("NOT_SET_HERE"))
    tpc.Serve(metrics=0, health=0, host="0.0.0.0")


def test_a_token_that_protects_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="neither metrics nor health ask for it"):
        tpc.Serve(metrics=0, page_token=TOKEN)


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(tpc.Serve(page=0, page_token=TOKEN))


# A start -----------------------------------------------------------------------------------------------------------


def test_without_it_nothing_is_opened(job: Job) -> None:
    before = set(threading.enumerate())
    assert listeners_of(job, (), (), None) == []
    assert set(threading.enumerate()) <= before


def test_a_job_s_own_listeners_come_first_so_that_ports_are_open_while_callbacks_end(job: Job) -> None:
    listeners = listeners_of(job, (print,), (), tpc.Serve(health=0, registry=CollectorRegistry()))
    assert isinstance(listeners[0], Callbacks)
    assert len(listeners) == 3
    close(listeners)


def test_a_port_that_is_taken_leaves_none_of_the_others_open(job: Job) -> None:
    ports = free_port(), free_port()
    with socket.create_server((HOST, 0)) as taken:
        serve = tpc.Serve(metrics=ports[0], page=ports[1], health=taken.getsockname()[1], registry=CollectorRegistry())
        with pytest.raises(ConfigurationError, match="health cannot be served"):
            serve.open(job)
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port))


def test_each_start_opens_it_again(job: Job) -> None:
    port = free_port()
    serve = tpc.Serve(health=port)
    for _ in range(2):
        listeners = serve.open(job)
        assert got(port, LIVENESS)[0] == 200
        close(listeners)


def test_a_service_serves_while_it_runs_and_no_longer(tmp_path: Path) -> None:
    port, registry, seen = free_port(), CollectorRegistry(), list[int]()
    service = tpc.service("numbers", directory=tmp_path / "service")

    @service.each(service.read(IterableSource(range(3))))
    def take(number: int, out: Any) -> None:
        seen.append(got(port, READINESS)[0])
        out.row("rows", {"n": number})

    service.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", format="json", name="rows"))
    service.run(until_end=True, serve=tpc.Serve(health=port, metrics=0, page=0, registry=registry))
    assert seen == [200] * 3
    assert registry.get_sample_value("tpc_rows_total", {"pipeline": "numbers", "sink": "rows"}) == 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("tpc-health", "tpc-metrics"))]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))


def test_a_start_takes_observers_of_the_user_s_own(tmp_path: Path) -> None:
    class Counting:
        """Counts what it is told."""

        told, jobs, is_closed = 0, list[Job](), False

        def open(self, job: Job) -> list[Listener]:
            self.jobs.append(job)
            return [self]

        def tell(self, *_: object) -> None:
            self.told += 1

        def close(self) -> None:
            self.is_closed = True

    counting, health = Counting(), tpc.Serve(health=0)
    pipeline = PipelineWithoutSpark(tmp_path / "checkpoint", 0)

    class Both:
        """Two of them."""

        def open(self, job: Job) -> list[Listener]:
            return [*counting.open(job), *health.open(job)]

    query = cast(Any, pipeline)._observing(Both())
    assert counting.jobs == [pipeline]
    query.close()
    assert counting.is_closed


@pytest.mark.parametrize("wrong", [4040, "127.0.0.1:4040", {"page": 4040}, tpc.Serve])
def test_what_is_no_such_value_is_refused_with_an_example(wrong: Any, job: Job) -> None:
    with pytest.raises(ConfigurationError, match="serve=") as caught:
        listeners_of(job, (), (), wrong)
    assert "tpc.Serve(" in caught.value.remedy
