"""Asks the sinks of a fork whether they show anything of the pipelines that it comes from. Changes nothing.

What they may show stands in `tpc.ancestors`. Asked at every start of a fork: an ancestor may live, and be given a sink
of the fork's one day.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpc.ancestors import Ancestor, check_same_target, check_shown
from tpc.errors import TpcError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.sink import Sink


def check_fork(history: History, sinks: Mapping[str, Sink], identities: Mapping[str, str]) -> None:
    """No sink of a fork may be a target of its ancestors. Of a pipeline that is no fork nothing is asked.

    Raises `ConfigurationError` naming the sink, and `TransientError`.
    """
    if history.pipeline is None:
        return
    for ancestor in history.ancestors:
        check_same_target(history.pipeline, ancestor, identities)
        for sink in sinks.values():
            _check_sink(history.pipeline, ancestor, sink)


def _check_sink(fork: PipelineId, ancestor: Ancestor, sink: Sink) -> None:
    committer = sink.committer(ancestor.pipeline)
    try:
        check_shown(fork, ancestor, sink.name, committer.newest_marker(), committer.owner())
    except TpcError as error:
        raise error.located(pipeline=str(fork), sink=sink.name) from error
    finally:
        committer.close()
