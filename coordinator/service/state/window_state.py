"""The state of a service's windows: a state like others, which says of itself which windows it holds.

Beside an entry for each open window, or for the open sessions of a key, it has the settings that these were made with,
and how many events came too late. A start with other settings is refused: what was closed by the old ones would be
opened, and told, once more.
"""

from __future__ import annotations

from typing import Any

from tpc.coordinator.service.state.codec import decode, encode_key
from tpc.coordinator.service.state.contents import Contents
from tpc.coordinator.service.state.state import State
from tpc.describing import described
from tpc.errors import ConfigurationError
from tpc.json import JSONObject

SETTINGS = "settings"
LATE = "late"
"""Texts, which no entry of a window has as its key: those are tuples."""


class WindowState(State):
    """What `service.windows` keeps of the windows `windows`, which are made with these settings."""

    def __init__(self, name: str, contents: Contents, windows: str, settings: JSONObject) -> None:
        super().__init__(name, contents)
        self._windows = windows
        self._settings = settings

    def restore(self, *, before: int | None = None) -> None:
        """As of any state. Raises `ConfigurationError` where it holds other windows, or what are none."""
        super().restore(before=before)
        held = self._contents.get(encode_key(SETTINGS))
        if held is None and len(self._contents):
            raise ConfigurationError(
                f"the store of {self.name!r} holds keys of a state, and no windows",
                sink=self.name,
                remedy="give the windows a name of their own.",
            )
        if held is not None and (made_with := decode(held.value or b"")) != self._settings:
            raise ConfigurationError(
                f"the windows {self._windows!r} were begun with {_told(made_with)}, and the program has "
                f"{_told(self._settings)}",
                sink=self.name,
                remedy="give them a name of their own. Keep the old ones in the program too, and add nothing to them, "
                "until what is open has closed.",
            )

    def write_settings(self) -> None:
        """Before anything else is written."""
        if self.get(SETTINGS) is None:
            self[SETTINGS] = self._settings

    def count_late(self) -> None:
        """One more event came too late for a window."""
        self.write_settings()
        self[LATE] = self.get(LATE, 0) + 1

    def late_in_epoch(self) -> int:
        """How many came too late in an epoch, once it is cut."""
        key = encode_key(LATE)
        changed, before = (self._taken or {}).get(key), self._contents.get(key)
        if changed is None:
            return 0
        total: int = decode(changed.value or b"") - (0 if before is None else decode(before.value or b""))
        return total


def _told(settings: Any) -> str:
    if not isinstance(settings, dict):
        return described(settings, 100)
    return ", ".join(f"{name}={value}" for name, value in settings.items())
