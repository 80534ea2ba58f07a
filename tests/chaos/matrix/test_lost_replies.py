"""A reply is lost for a process that waits for it, once, and the request goes on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpc.chaos.faults import injector
from tpc.chaos.faults.fault import REPLY_LOST
from tpc.chaos.matrix.case_run import LostReplies
from tpc.chaos.matrix.cases.cell_cases import fault_at
from tpc.chaos.proxy import KAFKA, Action, Fired, Proxy, Request

FAULT = fault_at("sink.commit", REPLY_LOST, "kafka")
OURS = Request("EndTxn", "commit tpc~job~1~kafka~1")


@pytest.fixture
def replies(tmp_path: Path) -> Iterator[LostReplies]:
    with Proxy("127.0.0.1", 1, KAFKA) as proxy:
        yield LostReplies(tmp_path, {"kafka": proxy}, "job")


def wait_at_the_step(replies: LostReplies) -> None:
    """As the injector does at the fault's step."""
    injector.claim_file(replies.directory, 0).write_text(json.dumps({**FAULT.to_json(), "prepared": 1}))


def test_nothing_is_armed_before_a_process_waits(replies: LostReplies) -> None:
    replies.arm([FAULT])
    assert replies.rules == {}
    assert not injector.armed_file(replies.directory, 0).exists()


def test_a_process_that_waits_is_let_go_once_its_reply_will_be_lost(replies: LostReplies) -> None:
    wait_at_the_step(replies)
    replies.arm([FAULT])
    ((server, rule),) = replies.rules.values()
    assert (server, rule.action) == ("kafka", Action.LOSE_REPLY_AND_RESET)
    assert rule.is_due(OURS)
    assert injector.armed_file(replies.directory, 0).exists()


def test_a_request_of_another_pipeline_keeps_its_reply(replies: LostReplies) -> None:
    wait_at_the_step(replies)
    replies.arm([FAULT])
    ((_, rule),) = replies.rules.values()
    assert not rule.is_due(Request("EndTxn", "commit tpc~jobs~1~kafka~1"))


def test_a_reply_is_lost_once(replies: LostReplies) -> None:
    wait_at_the_step(replies)
    replies.arm([FAULT])
    armed = dict(replies.rules)
    replies.arm([FAULT])
    assert replies.rules == armed


def test_the_request_whose_reply_was_lost_is_on_record(replies: LostReplies) -> None:
    wait_at_the_step(replies)
    replies.arm([FAULT])
    ((_, rule),) = replies.rules.values()
    assert rule.on_fired is not None
    rule.on_fired(Fired(5.0, OURS, rule.action, 1))
    (record,) = injector.fired(replies.directory).values()
    assert (record["at"], record["request"]) == (5.0, OURS.detail)
