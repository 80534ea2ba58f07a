"""The description of an effects sink: its outbox, the call and its retries. Makes no call itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.describing import described
from tpc.durations import require_length, require_timeouts
from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.parameter_types import kinds_checked
from tpc.sink import Committer, Validator, Writer
from tpc.sinks.authoring.staged import StagedSink
from tpc.sinks.effects.effect import Call, EffectRetry, Guarantee, require_plain_call

if TYPE_CHECKING:
    import pyarrow


class EffectSink(StagedSink):
    """One call per row, decided with the epoch and made after the epoch is complete.

    The coordinator's process makes the calls, in `concurrency` threads. `path` is the outbox, an existing directory
    that all processes of the pipeline share. `key` are the columns that identify an effect: two rows with the same
    values in them are one effect. `guarantee` says what follows if it is unknown whether a call was made.

    With `wait` the next epoch, and the end of the pipeline, wait until every effect of earlier epochs is carried out or
    left for a person, at most `wait_timeout_s`. `call_timeout_s` is how long a call may take. A call that takes longer
    keeps its thread until it ends, so that never more than `concurrency` calls run. `timeout_s` is how long the outbox
    may be busy. Effects that are done are kept for `keep_s`.

    `call` is a plain function that returns when the call is made; coroutine and generator functions are refused. It
    stays in the coordinator's process: it is never pickled, and its closure need not be picklable.
    """

    kind = "effects"

    @kinds_checked
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
        except Exception:  # noqa: BLE001  a value of any class is compared with the words
            words = " or ".join(repr(one.value) for one in Guarantee)
            raise ConfigurationError(
                f"`guarantee` must be {words}, not {described(guarantee, 60)}", sink=name
            ) from None
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
        """A writer for one file of effects."""
        from tpc.sinks.effects.writer import EffectWriter

        return EffectWriter(self, handle, hint)

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator:
        """Checks that rows have a key and an exact form in the outbox."""
        from tpc.sinks.effects.writer import EffectValidator

        return EffectValidator(self, handle)

    def locked_files(self) -> Sequence[Path]:
        """The outbox."""
        from tpc.sinks.effects.database import Database

        return (Database(self.path, self.timeout_s).path,)

    def committer(self, pipeline: PipelineId) -> Committer:
        """The committer, which carries effects out once its coordinator runs as leader."""
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
