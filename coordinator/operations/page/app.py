"""The web application: which address shows which page. Its pages are made in `pages`, who may see them in `guard`.

Every route answers GET and nothing else. Pages are made in threads, of what the watching threads have read last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.operations.page import facts, pages
from tpc.coordinator.operations.page.events import Changes, stream
from tpc.coordinator.operations.page.guard import Guard
from tpc.coordinator.operations.page.watching import Watched
from tpc.errors import ConfigurationError, TpcError

logger = logging.getLogger(__name__)

_FILES = {"style.css": "text/css", "live.js": "text/javascript"}


class Pages:
    """The endpoints, over the logs that are watched."""

    def __init__(self, watched: Sequence[Watched], clock: Clock, changes: Changes) -> None:
        self.watched = watched
        self.clock = clock
        self.changes = changes

    async def pipelines(self, _: Request) -> Response:
        """All pipelines."""
        return await self._made(pages.pipelines_page, self.watched)

    async def pipeline(self, request: Request) -> Response:
        """One pipeline; with `?before=EPOCH`, a page of older epochs."""
        one = self._watched(request)
        before = request.query_params.get("before")
        if before is None:
            return await self._made(pages.pipeline_page, one)
        if not before.isdecimal() or len(before) > 18:
            raise HTTPException(404)
        return await self._made(pages.older_page, one, int(before))

    async def epoch(self, request: Request) -> Response:
        """One epoch."""
        return await self._made(pages.epoch_page, self._watched(request), request.path_params["epoch"])

    async def sinks(self, request: Request) -> Response:
        """What the sinks' systems say now."""
        one = self._watched(request)
        return HTMLResponse(await run_in_threadpool(pages.sinks_page, one, self.clock.wall()))

    async def events(self, request: Request) -> Response:
        """What changes, as server-sent events, until the browser or the page ends."""
        kind, headers = "text/event-stream", {"X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(media_type=kind, headers=headers)
        return StreamingResponse(stream(self.watched, self.changes, self.clock), media_type=kind, headers=headers)

    async def _made(self, page: Callable[..., str], *of: Any) -> Response:
        """A page as it is now; of one that cannot be made for a reason that nobody has foreseen, that."""
        try:
            return HTMLResponse(await run_in_threadpool(page, *of, self.clock.wall()))
        except TpcError:
            raise
        except Exception as error:
            logger.exception("a page could not be made")
            told = {
                "what": f"this page could not be made: {type(error).__name__}",
                "safe": "nothing was changed.",
                "remedy": "`tpc status` and `tpc log check` read the same log; the output of this process says more.",
            }
            return HTMLResponse(pages.error_page("A mistake of this page", told, self.clock.wall()), 500)

    def _watched(self, request: Request) -> Watched:
        number: int = request.path_params["number"]
        if number >= len(self.watched):
            raise HTTPException(404)
        return self.watched[number]

    async def refused(self, _: Request, error: Exception) -> Response:
        """A log that does not answer, or an epoch that it does not hold."""
        is_missing = isinstance(error, ConfigurationError)
        title = "Not in the log" if is_missing else "The log cannot be read"
        html = pages.error_page(title, facts.error_view(error), self.clock.wall())
        return HTMLResponse(html, 404 if is_missing else 503)

    async def not_found(self, _: Request, __: Exception) -> Response:
        """No such page."""
        error = {"what": "there is no such page", "safe": "", "remedy": ""}
        return HTMLResponse(pages.error_page("Not found", error, self.clock.wall()), 404)


async def static(request: Request) -> Response:
    """A file of the page's own."""
    name = request.url.path.removeprefix("/")
    return Response(static_file(name), media_type=_FILES[name])


@cache
def static_file(name: str) -> bytes:
    """Its bytes."""
    return (files(pages.PACKAGE) / "static" / name).read_bytes()


def make_app(watched: Sequence[Watched], clock: Clock, changes: Changes, token: str | None = None) -> Starlette:
    """The application; with a token, for those who show it, else for this machine."""
    endpoints = Pages(watched, clock, changes)
    routes = [
        Route("/", endpoints.pipelines, methods=["GET"]),
        Route("/pipelines/{number:int}", endpoints.pipeline, methods=["GET"]),
        Route("/pipelines/{number:int}/epochs/{epoch:int}", endpoints.epoch, methods=["GET"]),
        Route("/pipelines/{number:int}/sinks", endpoints.sinks, methods=["GET"]),
        Route("/events", endpoints.events, methods=["GET"]),
        *(Route(f"/{name}", static, methods=["GET"]) for name in _FILES),
    ]
    handlers: Mapping[object, object] = {TpcError: endpoints.refused, 404: endpoints.not_found}
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token)], exception_handlers=handlers)  # type: ignore[arg-type]
