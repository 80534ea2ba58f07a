"""Settings that are read from the environment of whichever process needs them.

`tpc.env("PG_DSN")` stands for the value of that variable without holding it, so that no secret is pickled,
logged or stored. Sinks take `str | Env` for every address that may carry a credential.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tpc.errors import ConfigurationError


@dataclass(frozen=True)
class Env:
    """The name of an environment variable; resolved by `resolve` in the process that uses it."""

    variable: str

    def __repr__(self) -> str:
        return f"env({self.variable!r})"


def env(variable: str) -> Env:
    """A setting that each process reads from its own environment."""
    return Env(variable)


def resolve(setting: str | Env) -> str:
    """The value of a setting. Raises `ConfigurationError` when its variable is not set in this process."""
    if isinstance(setting, str):
        return setting
    value = os.environ.get(setting.variable)
    if value is None:
        raise ConfigurationError(
            f"environment variable {setting.variable} is not set in process {os.getpid()}",
            remedy=f"export it for the driver and for the executors (spark.executorEnv.{setting.variable}).",
        )
    return value
