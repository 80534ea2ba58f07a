"""Who may see the pages, and what a browser may do with them: asked before any page is looked for.

Only GET and HEAD are served. Without a token only names of this machine are answered to: a page of others, whose name
was made to point here, would else read along. The token comes with each request, as a bearer token or as the password
of HTTP's Basic login (any user name): so there is neither a form nor a cookie, and nothing is ever posted.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import replace

from tpc.coordinator.operations.address import names_this_machine
from tpc.coordinator.operations.bounded_server import Answer, Handler, Request, get_only

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

    def __init__(self, handler: Handler, token: str | None) -> None:
        self._handler = handler
        self._token = None if token is None else token.encode()

    def __call__(self, request: Request) -> Answer:
        """What a request gets, or its refusal."""
        answer = get_only(request) or self._refusal(request) or self._handler(request)
        return replace(answer, headers={**answer.headers, **HEADERS})

    def _refusal(self, request: Request) -> Answer | None:
        if self._token is None:
            if names_this_machine(_without_port(request.headers.get("host", ""))):
                return None
            return Answer(421, b"without a token only this machine is answered\n")
        if any(hmac.compare_digest(shown, self._token) for shown in _shown(request.headers.get("authorization", ""))):
            return None
        needed = b"a token is needed: as bearer token, or as the password of the login\n"
        return Answer(401, needed, headers={"WWW-Authenticate": 'Basic realm="tpc ui", charset="UTF-8"'})


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
