"""What a sweep says of a transaction that it cannot end; the coordinator is played, since brokers pass such states."""

from __future__ import annotations

import pytest

from tpc.errors import ConfigurationError, TransientError
from tpc.handles import PipelineId
from tpc.sink import InDoubt
from tpc.sinks.kafka.cluster.answers import Description, Reply
from tpc.sinks.kafka.driver.ending import TransactionEnding

JOB = PipelineId("job")
LEFT = InDoubt("tpc~job~1~1~out~worker~0", JOB, 1, "out", None, {})
OPEN = Description(LEFT.resource, "Ongoing", 40, 3, 1000, 0)
REFUSED = Reply("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")


class Coordinator:
    """Says the same whenever it is asked."""

    def __init__(self, description: Description | Reply, answer: Reply) -> None:
        self.description = description
        self.answer = answer

    def describe(self, names: list[str]) -> dict[str, Description | Reply]:
        return dict.fromkeys(names, self.description)

    def fence(self, _: str, timeout_ms: int) -> Reply:
        return self.answer


def sweep(description: Description | Reply, answer: Reply) -> None:
    played: object = Coordinator(description, answer)
    unused: object = None
    ending = TransactionEnding(
        played,  # type: ignore[arg-type]  # played
        unused,  # type: ignore[arg-type]  # a sweep looks at no marker
        unused,  # type: ignore[arg-type]
        unused,  # type: ignore[arg-type]
        JOB,
        "out",
        timeout_s=0.05,
        transaction_timeout_ms=lambda: 1000,
    )
    ending.abort([LEFT])


def test_a_sweep_in_vain_tells_the_last_answer_to_the_abort() -> None:
    with pytest.raises(TransientError, match=r"within 0\.05 s: .*INVALID_TRANSACTION_TIMEOUT") as raised:
        sweep(OPEN, Reply("INVALID_TRANSACTION_TIMEOUT"))

    assert (raised.value.pipeline, raised.value.sink) == ("job#1", "out")


def test_a_sweep_in_vain_tells_the_state_that_does_not_pass() -> None:
    with pytest.raises(TransientError, match="PrepareAbort"):
        sweep(Description(LEFT.resource, "PrepareAbort", 40, 4, 1000, 0), Reply("CONCURRENT_TRANSACTIONS"))


@pytest.mark.parametrize(
    ("description", "answer", "right"), [(OPEN, REFUSED, "Write"), (REFUSED, Reply("NONE"), "Describe")]
)
def test_a_sweep_that_is_refused_names_the_right(description: Description | Reply, answer: Reply, right: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{right} on transactional ids that begin with 'tpc~'") as raised:
        sweep(description, answer)

    assert f"--operation {right} --transactional-id" in raised.value.remedy
    assert LEFT.resource in raised.value.what
    assert (raised.value.pipeline, raised.value.sink) == ("job#1", "out")


@pytest.mark.parametrize("description", [Reply("TRANSACTIONAL_ID_NOT_FOUND"), Description("id", "Empty", 4, 4, 1, 0)])
def test_a_sweep_of_what_is_not_open_any_more_is_content(description: Description | Reply) -> None:
    sweep(description, REFUSED)
