"""A network of this machine's own, with a host for each server: parts of it can be cut off, and repaired.

The hosts are network namespaces of Linux, joined by a bridge. A cut loses packets without a word, both ways: each side
sends them to a hardware address that nobody has. Nothing is refused, TCP tries again and goes on where it was when the
cut is repaired, as with a cable that is pulled. Needs root, and `ip` of iproute2.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from tpc.errors import LocalServerError, NotInstalledError

THIS_MACHINE = 0
"""The number of the host that is no namespace: whoever made the network is at home there."""
NOBODY = "02:00:00:00:00:fe"
"""A hardware address that no host has."""
TIMEOUT_S = 20.0
_OURS = re.compile(r"\btpcn-(\d+)-\d+\b|\btpcb-(\d+)\b")


class PrivateNetwork:
    """Hosts numbered from 1, at `address_of(number)`. Raises `NotInstalledError` where none can be made."""

    def __init__(self, hosts: int) -> None:
        self.hosts = range(1, hosts + 1)
        self._cuts: set[tuple[int, int]] = set()
        self._bridge = f"tpcb-{os.getpid()}"
        self._subnet = f"10.{random.randrange(180, 240)}.{random.randrange(1, 250)}"  # any that is free

    def address_of(self, host: int) -> str:
        """Its IP address."""
        return f"{self._subnet}.{254 if host == THIS_MACHINE else host}"

    def command_at(self, host: int) -> list[str]:
        """The words before a command that make it run at a host."""
        return ["ip", "netns", "exec", self._namespace(host)]

    def start(self) -> None:
        """Make it; what a process that was killed has left of its own is removed."""
        if shutil.which("ip") is None or os.geteuid() != 0:
            raise NotInstalledError("a private network cannot be made", remedy="run as root, with iproute2 installed.")
        _remove_left_over()
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("addr", "add", f"{self.address_of(THIS_MACHINE)}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for host in self.hosts:
                self._add(host)
        except LocalServerError as error:
            self.close()
            raise NotInstalledError(f"a private network cannot be made: {error.what}", remedy="") from error

    def _add(self, host: int) -> None:
        outer, inner = f"tpcv-{os.getpid()}-{host}", f"tpcw-{os.getpid()}-{host}"
        _ip("netns", "add", self._namespace(host))
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", inner, "netns", self._namespace(host), "name", "eth0")
        _ip("link", "set", outer, "master", self._bridge, "up")
        _ip("addr", "add", f"{self.address_of(host)}/24", "dev", "eth0", at=self._namespace(host))
        _ip("link", "set", "eth0", "up", at=self._namespace(host))
        _ip("link", "set", "lo", "up", at=self._namespace(host))

    def part(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Cut every host of `some` off from every one of `others`."""
        theirs = list(others)
        for pair in sorted({(min(a, b), max(a, b)) for a in some for b in theirs if a != b} - self._cuts):
            self._cuts.add(pair)
            for one, other in (pair, pair[::-1]):
                self._neighbour("replace", one, other, "lladdr", NOBODY, "nud", "permanent")

    def part_all(self, hosts: Sequence[int]) -> None:
        """Cut each of these hosts off from each other one."""
        for one, other in combinations(hosts, 2):
            self.part([one], [other])

    def mend(self) -> None:
        """Undo all cuts."""
        for pair in sorted(self._cuts):
            for one, other in (pair, pair[::-1]):
                self._neighbour("del", one, other)
            self._cuts.discard(pair)

    def close(self) -> None:
        """Remove it. Its servers should have ended."""
        for host in self.hosts:
            _ip("netns", "del", self._namespace(host), required=False)
        _ip("link", "del", self._bridge, required=False)

    def _neighbour(self, verb: str, host: int, other: int, *options: str) -> None:
        device = self._bridge if host == THIS_MACHINE else "eth0"
        at = None if host == THIS_MACHINE else self._namespace(host)
        _ip("neigh", verb, self.address_of(other), *options, "dev", device, at=at)

    def _namespace(self, host: int) -> str:
        return f"tpcn-{os.getpid()}-{host}"


def _remove_left_over() -> None:
    """Of processes that are gone."""
    seen = _ip("netns", "list") + _ip("-o", "link", "show", "type", "bridge")
    for found in _OURS.finditer(seen):
        if Path(f"/proc/{found[1] or found[2]}").exists():
            continue
        _ip(*(("netns", "del") if found[1] else ("link", "del")), found[0], required=False)


def _ip(*words: str, at: str | None = None, required: bool = True) -> str:
    where = [] if at is None else ["-n", at]
    told = subprocess.run(["ip", *where, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if told.returncode != 0 and required:
        raise LocalServerError(f"ip {' '.join(words)}: {told.stderr.strip()}")
    return told.stdout
