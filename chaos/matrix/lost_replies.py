"""The replies that a proxy loses for a case: each is armed when the process at the fault's step has begun to wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tpc.chaos.faults import injector
from tpc.chaos.faults.fault import StepFault
from tpc.chaos.proxy import Action, Fired, Proxy, Rule


class LostReplies:
    """Those of one case, whose faults are recorded in `directory`. `pipeline` is the name in the requests."""

    def __init__(self, directory: Path, proxies: Mapping[str, Proxy], pipeline: str) -> None:
        self.directory = directory
        self.proxies = proxies
        self.pipeline = pipeline
        self.rules: dict[int, tuple[str, Rule]] = {}
        """The rules that were made, by the number of the fault, each with the server whose proxy has it."""

    def arm(self, faults: Sequence[StepFault]) -> None:
        """Have the replies lost that processes wait for by now."""
        for number, fault in enumerate(faults):
            lost = fault.lost
            if lost is None or number in self.rules or not injector.claim_file(self.directory, number).exists():
                continue
            matching = lost.matching.replace("{pipeline}", f"tpc~{self.pipeline}~")
            on_fired = partial(self._record, number)
            rule = Rule(Action.LOSE_REPLY_AND_RESET, lost.kind, matching=matching, on_fired=on_fired)
            self.rules[number] = (lost.server, self.proxies[lost.server].add(rule))
            injector.armed_file(self.directory, number).touch()

    def end(self) -> None:
        """No reply is lost any more."""
        for server, rule in self.rules.values():
            self.proxies[server].remove(rule)

    def _record(self, number: int, made: Fired) -> None:
        injector.record_made(self.directory, number, made.at, made.request.detail)
