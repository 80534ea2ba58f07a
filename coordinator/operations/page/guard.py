"""Who may see the pages, and what a browser may do with them: asked before any page is looked for.

Only GET and HEAD are served. Without a token only names of this machine are answered to: a page of others, whose name
was made to point here, would else read along. The token comes with each request, as a bearer token or as the password
of HTTP's Basic login (any user name): so there is neither a form nor a cookie, and nothing is ever posted.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Answers itself what may not pass."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or its refusal."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        if method not in {"GET", "HEAD"}:
            return PlainTextResponse("this page changes nothing\n", 405, {"Allow": "GET, HEAD"})
        if self._token is None:
            if names_this_machine(_without_port(headers.get("host", ""))):
                return None
            return PlainTextResponse("without a token only this machine is answered\n", 421)
        if any(hmac.compare_digest(shown, self._token) for shown in _shown(headers.get("authorization", ""))):
            return None
        return PlainTextResponse(
            "a token is needed: as bearer token, or as the password of the login\n",
            401,
            {"WWW-Authenticate": 'Basic realm="tpc ui", charset="UTF-8"'},
        )


def names_this_machine(host: str) -> bool:
    """Whether a name or an address is one of the machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() else host


def _shown(authorization: str) -> list[bytes]:
    """The token that a request shows, if it shows one."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return [value.strip().encode()]
    if scheme.lower() != "basic":
        return []
    try:
        _, _, password = base64.b64decode(value.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return []
    return [password]
