"""Both servers on free ports, and a client on the standard library."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import pytest

from engine_sampler.cli.serve.engine import ServingEngine
from engine_sampler.cli.serve.replies import ServedModel
from engine_sampler.cli.serve.templates import plain
from engine_sampler.cli.serve.threads import ThreadingChatServer

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@cache
def demo_engine() -> Any:
    """The model of the demo, learnt once."""
    pytest.importorskip("tokenizers")
    from engine_sampler.demo.engine import Engine

    return Engine.load()


def demo() -> ServedModel:
    """The demo as a server has it."""
    from engine_sampler.demo.engine import DemoSession

    return ServedModel(DemoSession(demo_engine()), "demo", "qwen_3", plain)


class Server(NamedTuple):
    """A server that runs."""

    address: str
    engine: ServingEngine

    def get(self, path: str, data: bytes | None = None) -> tuple[int, str]:
        """The status and the text of an answer."""
        request = urllib.request.Request(self.address + path, data)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, body: Any, path: str = CHAT) -> tuple[int, str]:
        return self.get(path, body if isinstance(body, bytes) else json.dumps(body).encode())

    def is_idle(self) -> bool:
        """Whether all requests leave within some seconds."""
        return eventually(lambda: not self.engine.scheduler.request_ids)


def eventually(condition: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.02)
    return False


@contextmanager
def threading_server(served: ServedModel) -> Iterator[Server]:
    """The server on the standard library."""
    with ThreadingChatServer(("127.0.0.1", 0), served) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Server(f"http://127.0.0.1:{server.server_port}", server.engine)
        server.shutdown()
        thread.join()


@contextmanager
def uvicorn_server(served: ServedModel) -> Iterator[Server]:
    """The server on FastAPI; skips the test where it is not installed."""
    pytest.importorskip("fastapi")
    uvicorn = pytest.importorskip("uvicorn")
    from engine_sampler.cli.serve.asgi import StoppingServer, build_app

    app = build_app(served)
    server = StoppingServer(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    assert eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Server(f"http://127.0.0.1:{port}", app.state.engine)
    server.should_exit = True
    thread.join()
