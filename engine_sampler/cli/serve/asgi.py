"""A server on FastAPI and uvicorn: the engine has a thread, all clients share the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from .engine import ServingEngine, Update
from .replies import MAX_BODY, RefusedError, Reply, ServedModel, begin, metrics, no_page, too_large


class StoppingServer(uvicorn.Server):  # type: ignore[misc,unused-ignore]
    """Stops the engine first: streams end with an error, and no client keeps the server from ending.

    StoppingServer(uvicorn.Config(build_app(served), port=8000)).run()
    """

    async def shutdown(self, sockets: Any = None) -> None:
        """What a signal leads to."""
        await run_in_threadpool(self.config.app.state.engine.stop)
        await super().shutdown(sockets)


def build_app(served: ServedModel) -> FastAPI:
    """The app of a model."""
    engine = ServingEngine(served.session, drafter=served.drafter)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await run_in_threadpool(engine.stop)

    app = FastAPI(title=served.name, lifespan=running, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.engine = engine

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse(served.card())

    @app.get("/metrics")
    async def scrape() -> Response:
        kind, text = metrics()
        return Response(text, media_type=kind)

    @app.post("/v1/chat/completions")
    @app.post("/v1/completions")
    async def answer(request: Request) -> Response:
        loop, outbox = asyncio.get_running_loop(), asyncio.Queue[Update]()

        def deliver(update: Update) -> None:  # on the engine's thread
            loop.call_soon_threadsafe(outbox.put_nowait, update)

        data = await body_of(request)
        reply = await run_in_threadpool(begin, request.url.path, data, served, engine, deliver)
        watcher = asyncio.create_task(cancel_with(request, engine, reply))
        if reply.streams:
            return StreamingResponse(events(reply, outbox, watcher), media_type="text/event-stream")
        while not reply.is_done:
            reply.take(await outbox.get())
        watcher.cancel()
        return JSONResponse(reply.whole())

    @app.exception_handler(RefusedError)
    async def refuse(_: Request, refusal: RefusedError) -> Response:
        return JSONResponse(refusal.body, refusal.status)

    @app.exception_handler(ClientDisconnect)
    async def leave(_: Request, __: Exception) -> Response:  # while its body was read: nobody gets this
        return Response(status_code=400)

    @app.exception_handler(404)
    async def missing(request: Request, _: Exception) -> Response:
        return await refuse(request, no_page(request.url.path))

    return app


async def events(
    reply: Reply, outbox: asyncio.Queue[Update], watcher: asyncio.Task[None]
) -> AsyncIterator[str]:
    """The events of a stream."""
    for event in reply.first():
        yield event
    while not reply.is_done:
        for event in reply.take(await outbox.get()):
            yield event
    for event in reply.last():
        yield event
    watcher.cancel()


async def cancel_with(request: Request, engine: ServingEngine, reply: Reply) -> None:
    """Wait until the client has gone, and end its requests: the last update of each says `abort`."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    engine.cancel(reply.ids)


async def body_of(request: Request) -> bytes:
    """The body of a request. Raises `RefusedError` as soon as it is too large."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            raise too_large()
    return bytes(data)
