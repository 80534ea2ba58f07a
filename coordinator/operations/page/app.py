"""The pages as answers to requests: which path shows which. They are made in `pages`; who may see them is in `guard`.

A page is made in the thread that answers, of what the watching threads have read last.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from urllib.parse import parse_qs

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.operations.bounded_server import Answer, Handler, Request
from tpc.coordinator.operations.page import log_summary, pages
from tpc.coordinator.operations.page.events import Changes, stream
from tpc.coordinator.operations.page.guard import Guard
from tpc.coordinator.operations.page.log_watcher import Watched
from tpc.errors import ConfigurationError, TpcError

logger = logging.getLogger(__name__)

ROUTES = {
    "/": "pipelines",
    "/pipelines/{number}": "pipeline",
    "/pipelines/{number}/epochs/{epoch}": "epoch",
    "/pipelines/{number}/sinks": "sinks",
    "/events": "events",
    "/style.css": "style",
    "/live.js": "script",
}
"""A path, where braces are whole numbers, and the method of `Pages` that answers."""
_PATHS = {name: re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[0-9]{1,18})", path)) for path, name in ROUTES.items()}


class NotFoundError(Exception):
    """There is no such page."""


class Pages:
    """The handler of all requests, over the logs that are watched. Thread-safe."""

    def __init__(self, watched: Sequence[Watched], clock: Clock, changes: Changes) -> None:
        self.watched = watched
        self.clock = clock
        self.changes = changes

    def __call__(self, request: Request) -> Answer:
        """A page as it is now; of one that cannot be made for an unforeseen reason, that."""
        try:
            return self._answer(request)
        except NotFoundError:
            return self._error("Not found", {"what": "there is no such page", "safe": "", "remedy": ""}, 404)
        except ConfigurationError as error:  # an epoch that the log does not hold
            return self._error("Not in the log", log_summary.error_view(error), 404)
        except TpcError as error:
            return self._error("The log cannot be read", log_summary.error_view(error), 503)
        except Exception as error:
            logger.exception("a page could not be made")
            told = {
                "what": f"this page could not be made: {type(error).__name__}",
                "safe": "nothing was changed.",
                "remedy": "`tpc status` and `tpc log check` read the same log; the output of this process says more.",
            }
            return self._error("A mistake of this page", told, 500)

    def _answer(self, request: Request) -> Answer:
        for name, path in _PATHS.items():
            if found := path.fullmatch(request.path):
                numbers = {key: int(value) for key, value in found.groupdict().items()}
                answer: Callable[..., Answer] = getattr(self, name)
                return answer(request, **numbers)
        raise NotFoundError

    def pipelines(self, _: Request) -> Answer:
        """All pipelines."""
        return _html(pages.pipelines_page(self.watched, self.clock.wall()))

    def pipeline(self, request: Request, number: int) -> Answer:
        """One pipeline; with `?before=EPOCH`, a page of older epochs."""
        one = self._watched(number)
        before = parse_qs(request.query, keep_blank_values=True).get("before", [None])[-1]
        if before is None:
            return _html(pages.pipeline_page(one, self.clock.wall()))
        if not before.isdecimal() or len(before) > 18:
            raise NotFoundError
        return _html(pages.older_page(one, int(before), self.clock.wall()))

    def epoch(self, _: Request, number: int, epoch: int) -> Answer:
        """One epoch."""
        return _html(pages.epoch_page(self._watched(number), epoch, self.clock.wall()))

    def sinks(self, _: Request, number: int) -> Answer:
        """What the sinks' systems say now."""
        return _html(pages.sinks_page(self._watched(number), self.clock.wall()))

    def events(self, _: Request) -> Answer:
        """What changes, as server-sent events, until the browser or the page ends."""
        made = stream(self.watched, self.changes, self.clock)
        return Answer(200, made, "text/event-stream; charset=utf-8", {"X-Accel-Buffering": "no"})

    def style(self, _: Request) -> Answer:
        """The page's own style."""
        return Answer(200, static_file("style.css"), "text/css; charset=utf-8")

    def script(self, _: Request) -> Answer:
        """The page's own script."""
        return Answer(200, static_file("live.js"), "text/javascript; charset=utf-8")

    def _watched(self, number: int) -> Watched:
        if number >= len(self.watched):
            raise NotFoundError
        return self.watched[number]

    def _error(self, title: str, error: Mapping[str, str], status: int) -> Answer:
        return _html(pages.error_page(title, error, self.clock.wall()), status)


def _html(page: str, status: int = 200) -> Answer:
    return Answer(status, page.encode(), "text/html; charset=utf-8")


@cache
def static_file(name: str) -> bytes:
    """Its bytes."""
    return (files(pages.PACKAGE) / "static" / name).read_bytes()


def make_app(watched: Sequence[Watched], clock: Clock, changes: Changes, token: str | None = None) -> Handler:
    """The handler; with a token, for those who show it, else for this machine."""
    return Guard(Pages(watched, clock, changes), token)
