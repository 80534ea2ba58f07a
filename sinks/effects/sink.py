"""The description of an effects sink: where its outbox is, what is called and how often. Calls nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.lengths import require_length, require_timeouts
from tpc.sink import Committer, Validator, Writer
from tpc.sinks.authoring.staged import StagedSink
from tpc.sinks.effects.effect import Call, EffectRetry, Guarantee, require_plain_call

if TYPE_CHECKING:
    import pyarrow


class EffectSink(StagedSink):
    """A call per row, decided with the epoch and made after it is complete, from the driver, in `concurrency` threads.

    `path` is the outbox, a directory that driver and executors share and that exists. `key` are the columns that name
    an effect: two rows with the same values in them are one effect. `guarantee` says what follows when nobody knows
    whether a call was made. With `wait` the next epoch, and the end of the pipeline, wait until every effect of the
    epochs before is carried out or left for a person, at most `wait_timeout_s`. `call_timeout_s` is how long a call
    may take; one that takes longer keeps its thread until it ends, so that never more than `concurrency` are under way.
    `timeout_s` is how long the outbox may be busy. Effects that are done are remembered for `keep_s`.

    `call` is a plain function that returns when the call is made: coroutine and generator functions are refused. It
    stays on the driver: it is not pickled, and what it closes over need not be picklable.
    """

    kind = "effects"

    def __init__(
        self,
        name: str,
        path: str | Path,
        *,
        call: Call,
        key: Sequence[str],
        guarantee: Guarantee | str,
        concurrency: int = 4,
        retry: EffectRetry | None = None,
        wait: bool = False,
        wait_timeout_s: float = 600.0,
        call_timeout_s: float = 30.0,
        timeout_s: float = 10.0,
        keep_s: float = 30 * 86400.0,
    ) -> None:
        super().__init__(path, name=name)
        if isinstance(key, str) or not key:
            raise ConfigurationError("`key` must be the columns that name an effect", sink=name)
        require_plain_call(call, name)
        if concurrency < 1:
            raise ConfigurationError("`concurrency` must be at least 1", sink=name)
        try:
            self.guarantee = Guarantee(guarantee)
        except ValueError:
            words = " or ".join(repr(one.value) for one in Guarantee)
            raise ConfigurationError(f"`guarantee` must be {words}, not {guarantee!r}", sink=name) from None
        self.call: Call | None = call
        self.key = tuple(key)
        self.concurrency = concurrency
        self.retry = retry or EffectRetry()
        require_timeouts(
            f"the sink {self.name}", wait_timeout_s=wait_timeout_s, call_timeout_s=call_timeout_s, timeout_s=timeout_s
        )
        require_length(f"the sink {self.name}", "keep_s", keep_s, 0.0)
        self.wait, self.wait_timeout_s = wait, wait_timeout_s
        self.call_timeout_s, self.timeout_s, self.keep_s = call_timeout_s, timeout_s, keep_s

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "call": None, "retry": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, retry=EffectRetry())

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer of one file of effects."""
        from tpc.sinks.effects.writer import EffectWriter

        return EffectWriter(self, handle, hint)

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator:
        """Whether rows name an effect, and have an exact form in the outbox."""
        from tpc.sinks.effects.writer import EffectValidator

        return EffectValidator(self, handle)

    def locked_files(self) -> Sequence[Path]:
        """The outbox."""
        from tpc.sinks.effects.database import Database

        return (Database(self.path, self.timeout_s).path,)

    def committer(self, pipeline: PipelineId) -> Committer:
        """The driver's half, which carries effects out once a coordinator leads with it."""
        from tpc.sinks.effects.committer import EffectCommitter

        return EffectCommitter(self, pipeline)

    def describe(self) -> Mapping[str, str]:
        """Outbox, key and guarantee."""
        return {
            "outbox": str(self.path),
            "key": ", ".join(self.key),
            "guarantee": self.guarantee.value,
            "waits": "yes" if self.wait else "no",
        }
