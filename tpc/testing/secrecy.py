"""Secrets are seen nowhere: not in what a sink says about itself, stores, hands on, logs or raises."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import pytest

from tpc.sink import Committer
from tpc.testing.bench import Bench
from tpc.testing.deadlines import within
from tpc.testing.faults import QUESTIONS
from tpc.testing.kit_tests import KitTests
from tpc.testing.requirements import Clause, require

LEAVE_OUT = "leave credentials out of it, or take them as `tpc.env(...)` and resolve them where they are used."


class SecrecyTests(KitTests):
    """Looks for the strings in `secrets`."""

    def test_no_secret_is_in_what_a_sink_says_of_itself(self, bench: Bench) -> None:
        bench.needs("secrets", "has_no_secrets")
        writer = bench.writer(bench.handle(0))
        self.require_no_secret(
            {
                "repr(sink)": repr(bench.sink),
                "str(sink)": str(bench.sink),
                "describe()": str(dict(bench.sink.describe())),
                "limits": str(dict(bench.sink.limits)),
                "repr(writer)": repr(writer),
                "repr(committer)": repr(bench.committer),
                "identity()": bench.committer.identity(),
                "hint()": json.dumps(bench.committer.hint()),
            }
        )

    def test_no_secret_is_in_what_is_stored_or_answered(self, bench: Bench) -> None:
        bench.needs("secrets", "has_no_secrets")
        branch, other = bench.prepare(0), bench.prepare(1)
        listed = [repr(doubt) for doubt in bench.in_doubt()]
        bench.abort(other)
        self.require_no_secret(
            {
                "a committable": json.dumps(branch.committable.to_json()),
                "in_doubt()": str(listed),
                "the evidence of outcomes": str(bench.outcomes(branch, other)),
                "the newest marker": repr(bench.committer.newest_marker()),
            }
        )

    def test_no_secret_is_in_errors_or_logs(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        bench.needs("secrets", "has_no_secrets")
        committable = bench.prepare().committable
        calls: dict[str, Callable[[Committer], object]] = {
            **QUESTIONS,
            "commit": lambda committer: committer.commit([committable]),
            "abort": lambda committer: committer.abort([committable]),
            "check": lambda committer: committer.check(bench.context()),
        }
        with caplog.at_level(logging.INFO), bench.outage():
            said = {
                f"what {name} says in an outage": self.said_by(partial(call, bench.committer))
                for name, call in calls.items()
            }
        self.require_no_secret({**said, "the log": caplog.text})

    def said_by(self, call: Callable[[], object]) -> str:
        """The answer, or all that the error shows and carries."""
        try:
            return str(within(self.deadline_s, call))
        except Exception as error:  # noqa: BLE001  whichever it is, it must keep the secret
            shown = "".join(traceback.format_exception(error))
            with suppress(TypeError, pickle.PicklingError):
                return f"{shown}{pickle.dumps(error)!r}"
            return shown

    def require_no_secret(self, said: Mapping[str, str]) -> None:
        """None of the texts holds a secret."""
        for secret in self.secrets:
            seen = [where for where, text in said.items() if secret in text]
            # The secret itself is in no report.
            require(not seen, f"A secret is in {', '.join(seen)}.", Clause.SECRETS, LEAVE_OUT)
