"""The server of the page: on 127.0.0.1 alone, and for those who have its token."""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import webbrowser
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from fastapi import FastAPI
from nicegui import app, ui

from .page import Page
from .settings import PageSettings, restored
from .sources import Source

HOST = "127.0.0.1"
MOST_PAGES = 16
"""The pages that may be open at once: each keeps rows."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'self'; form-action 'none'"
)
"""Nothing is loaded from elsewhere; Vue compiles its templates in the page."""
REFUSED = b"This page needs the token in the address that `engine-sampler workbench` has printed.\n"

logger = logging.getLogger("engine_sampler.workbench")


class Guard:
    """Lets requests pass that carry the token, in the address or then in a cookie, and name this machine.

    A page of another site cannot guess the one; and by a name of its own that leads here it cannot send the
    other.
    """

    def __init__(self, inner: Any, token: str, port: int) -> None:
        self.inner, self.token = inner, token
        self.hosts = [f"{name}:{port}".encode() for name in (HOST, "localhost")]
        self.origins = [None, *(b"http://" + host for host in self.hosts)]
        self.cookie = f"workbench_{port}={token}"
        added = {"content-security-policy": POLICY, "referrer-policy": "no-referrer"}
        added |= {"x-content-type-options": "nosniff"}
        added |= {"set-cookie": f"{self.cookie}; HttpOnly; SameSite=Strict; Path=/"}
        self.added = [(name.encode(), value.encode()) for name, value in added.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self.added]
            await send(message)

        if scope["type"] == "lifespan" or self.admits(scope):
            await self.inner(scope, receive, sending)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSED})

    def admits(self, scope: Any) -> bool:
        """Whether a request may pass."""
        headers = dict(scope["headers"])
        if headers.get(b"host") not in self.hosts or headers.get(b"origin") not in self.origins:
            return False
        cookies = headers.get(b"cookie", b"").split(b"; ")
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0].encode()
        in_cookie = any(hmac.compare_digest(cookie, self.cookie.encode()) for cookie in cookies)
        return in_cookie or hmac.compare_digest(given, self.token.encode())


def serve(source: Source, port: int = 0, *, restore: str | None = None, browser: bool = True) -> None:
    """Serve the page until it is interrupted.

    Raises OSError for a port that is taken, ValueError for a link that is none.
    """
    begin = (PageSettings() if restore is None else restored(restore)).link()
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    listening.listen()  # who opens the address at once waits
    port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/?token={token}"
    pages: set[str] = set()

    async def root(state: str = "") -> None:
        client = ui.context.client
        await client.connected()  # who only reads the address does not have a page
        if client.is_deleted:
            return
        if len(pages) >= MOST_PAGES:
            ui.label(f"{MOST_PAGES} pages are open already: close one, then load this one again.")
            return
        pages.add(client.id)
        client.on_delete(lambda: pages.discard(client.id))
        try:
            settings, fault = restored(state or begin), ""
        except ValueError as error:
            settings, fault = restored(begin), str(error)
        Page(source, settings, address).open(fault)

    ui.page("/")(root)
    app.on_exception(lambda error: logger.debug("a handler failed", exc_info=error))
    inner = FastAPI(openapi_url=None)
    ui.run_with(inner, title="workbench", tailwind=False, show_welcome_message=False, reconnect_timeout=30)
    print(f"engine-sampler workbench: {address}", flush=True)
    if browser:
        webbrowser.open(address)
    options: dict[str, Any] = {"log_level": "critical", "ws_max_size": 2**20, "timeout_graceful_shutdown": 1}
    uvicorn.Server(uvicorn.Config(Guard(inner, token, port), **options)).run(sockets=[listening])
