"""Where something is served: an address of this machine and a port."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from tpc.describing import described
from tpc.errors import ConfigurationError

PORT_MAX = 65535
_HOST_AND_PORT = re.compile(r"(?:\[([^\[\]\s]*:[^\[\]\s]*)\]|([^\[\]:\s]+)):([0-9]{1,5})")


@dataclass(frozen=True)
class Address:
    """Port 0 is any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_of_this_machine(self) -> bool:
        """Whether no other machine can reach it."""
        return names_this_machine(self.host)


def address_of(what: str, given: object, host: str) -> Address:
    """A port of `host`, or "HOST:PORT". Raises `ConfigurationError` that names `what` the user has said."""
    address = _parsed(given) if isinstance(given, str) else Address(host, given) if type(given) is int else None
    if address is None or not 0 <= address.port <= PORT_MAX:
        raise ConfigurationError(
            f"{what}={described(given)} is no place to serve at",
            remedy=f'give a port from 0 to {PORT_MAX}, or "HOST:PORT", of IPv6 "[ADDRESS]:PORT".',
        )
    return address


def _parsed(text: str) -> Address | None:
    found = _HOST_AND_PORT.fullmatch(text)
    return None if found is None else Address(found[1] or found[2], int(found[3]))


def names_this_machine(host: str) -> bool:
    """Whether a name or an address is one of the machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
