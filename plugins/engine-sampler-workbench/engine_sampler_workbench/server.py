"""The server of the page: on 127.0.0.1 alone, and for those who have its token."""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import webbrowser
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui

from .page import Page
from .settings import Settings, restored
from .sources import Source

HOST = "127.0.0.1"
MOST_PAGES = 16
"""The pages that may be open at once: each keeps rows."""

logger = logging.getLogger("engine_sampler.workbench")

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'none'"
)
"""Nothing is loaded from elsewhere; Vue compiles its templates in the page."""


class Guard:
    """Lets requests pass that carry the token, in the address or then in a cookie, and name this machine: a page of
    another site can neither guess the one nor, by a name that it points here, send the other."""

    def __init__(self, app: Any, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.cookie = f"workbench_{port}"
        self.hosts = {f"{name}:{port}".encode() for name in (HOST, "localhost")}
        self.origins = {b"http://" + host for host in self.hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        own = (
            headers.get(b"host") in self.hosts
            and headers.get(b"origin", next(iter(self.origins))) in self.origins
        )
        if not own or not (self._in_cookie(headers) or self._in_address(scope)):
            return await _refuse(scope, send)
        return await self.app(scope, receive, self._with_headers(send))

    def _in_address(self, scope: Any) -> bool:
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        return self._is_token(given)

    def _in_cookie(self, headers: dict[bytes, bytes]) -> bool:
        with contextlib.suppress(Exception):  # SimpleCookie raises for what it cannot read
            cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(self.cookie)
            return cookie is not None and self._is_token(cookie.value)
        return False

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _with_headers(self, send: Any) -> Any:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"content-security-policy", POLICY.encode()),
                    (b"referrer-policy", b"no-referrer"),
                    (b"x-content-type-options", b"nosniff"),
                    (
                        b"set-cookie",
                        f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode(),
                    ),
                ]
            await send(message)

        return sending


async def _refuse(scope: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    text = b"This page needs the token in the address that `engine-sampler workbench` has printed.\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def serve(source: Source, port: int = 0, *, restore: str | None = None, browser: bool = True) -> None:
    """Serve the page until it is interrupted. Raises OSError for a port that is taken, ValueError for a link that
    is none."""
    begin = Settings() if restore is None else restored(restore)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/?token={token}"
    inner = FastAPI(openapi_url=None)
    pages: set[str] = set()

    async def root(state: str = "") -> None:
        client = ui.context.client
        if len(pages) >= MOST_PAGES:
            ui.label(f"{MOST_PAGES} pages are open already: close one, then load this one again.")
            return
        pages.add(client.id)
        client.on_delete(lambda: pages.discard(client.id))
        fault, settings = "", restored(begin.link())
        if state:
            try:
                settings = restored(state)
            except ValueError as error:
                fault = str(error)
        page = Page(source, settings, address)
        page.build()
        page.show_error(fault)
        page.ask("start")

    ui.page("/")(root)
    nicegui_app.on_exception(lambda error: logger.debug("a handler failed", exc_info=error))
    ui.run_with(
        inner,
        title="engine-sampler workbench",
        dark=None,
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=30,
    )
    print(f"engine-sampler workbench: {address}", flush=True)
    if browser:
        webbrowser.open(address)
    config = uvicorn.Config(Guard(inner, token, port), log_level="warning", ws_max_size=2**20, lifespan="on")
    uvicorn.Server(config).run(sockets=[listening])
