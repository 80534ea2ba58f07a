"""Settings that each process reads itself: from its environment, or from a file of its machine.

`tpc.env("PG_DSN")` and `tpc.secret_file("/run/secrets/pg")` refer to a value without holding it, so that no secret is
pickled, logged or stored. Sinks take `str | Elsewhere` for every address that may contain a credential.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from tpc.errors import ConfigurationError


class Elsewhere(ABC):
    """A value that is kept elsewhere. Only its place is shown, compared and pickled."""

    @abstractmethod
    def read(self) -> str:
        """The value that this process reads. Raises `ConfigurationError` if it cannot be read."""


@dataclass(frozen=True)
class Env(Elsewhere):
    """The name of an environment variable."""

    variable: str

    def read(self) -> str:
        """See `Elsewhere.read`."""
        value = os.environ.get(self.variable)
        if value is None:
            raise ConfigurationError(
                f"environment variable {self.variable} is not set in process {os.getpid()}",
                remedy="export it where every process of the pipeline starts, or keep the value in a file: "
                "tpc.secret_file().",
            )
        return value

    def __repr__(self) -> str:
        return f"env({self.variable!r})"


@dataclass(frozen=True)
class SecretFile(Elsewhere):
    """The path of a file that holds one value, on every machine of the pipeline."""

    path: str

    def __post_init__(self) -> None:
        if not Path(self.path).is_absolute():
            raise ConfigurationError(
                f"the path of a secret file must be absolute, not {self.path!r}",
                remedy="worker processes run in other directories: use an absolute path, as in /run/secrets/pg.",
            )

    def read(self) -> str:
        """See `Elsewhere.read`. The file's content without the line break that editors append."""
        try:
            value = Path(self.path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigurationError(
                f"the secret file {self.path} cannot be read in process {os.getpid()}: {why}",
                remedy="put it there on every machine of the pipeline, readable for the user that runs its processes.",
            ) from None
        if not value:
            raise ConfigurationError(f"the secret file {self.path} is empty", remedy="put the value into it.")
        return value

    def __repr__(self) -> str:
        return f"secret_file({self.path!r})"


def env(variable: str) -> Env:
    """A setting that each process reads from its own environment."""
    return Env(variable)


def secret_file(path: str) -> SecretFile:
    """A setting that each process reads from a file of its machine, e.g. a mounted secret; `path` is absolute."""
    return SecretFile(path)


def resolve(setting: str | Elsewhere) -> str:
    """The value of a setting. Raises `ConfigurationError` if this process cannot read it."""
    return setting if isinstance(setting, str) else setting.read()
