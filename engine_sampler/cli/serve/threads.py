"""A server on the standard library: a thread for each connection."""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .engine import ServingEngine, Update
from .replies import MAX_BODY, RefusedError, Reply, ServedModel, begin, metrics, no_page, refused, too_large


class ThreadingChatServer(ThreadingHTTPServer):
    """Serves a model at an address.

    served = ServedModel(session, "my-model", "qwen_3", render)
    with ThreadingChatServer(("127.0.0.1", 8000), served) as server:
        server.serve_forever()
    """

    def __init__(self, address: tuple[str, int], served: ServedModel) -> None:
        self.served, self.engine = served, ServingEngine(served.session, drafter=served.drafter)
        super().__init__(address, _Handler)
        self.engine.start()

    def server_close(self) -> None:
        """Stop, the engine too."""
        self.engine.stop()
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ThreadingChatServer
    timeout = 60  # seconds for which a client may neither send nor read

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # the client has gone
            self.close_connection = True

    def do_GET(self) -> None:
        path = self._path()
        try:
            if path == "/metrics":
                return self._send(200, *metrics())
            if path == "/v1/models":
                return self._send_json(200, self.server.served.card())
            raise no_page(path)
        except RefusedError as refusal:
            return self._refuse(refusal)

    def do_POST(self) -> None:
        outbox: queue.SimpleQueue[Update] = queue.SimpleQueue()
        server = self.server
        try:
            reply = begin(self._path(), self._body(), server.served, server.engine, outbox.put)
            try:
                self._answer(reply, self._updates(reply, outbox))
            finally:
                server.engine.cancel(reply.ids)
        except RefusedError as refusal:
            self._refuse(refusal)

    def _answer(self, reply: Reply, updates: Iterator[Update]) -> None:
        if not reply.streams:
            for update in updates:
                reply.take(update)
            return self._send_json(200, reply.whole())
        self._head(200, "text/event-stream")
        self._write(reply.first())
        for update in updates:
            self._write(reply.take(update))
        self._write(reply.last())
        return None

    def _updates(self, reply: Reply, outbox: queue.SimpleQueue[Update]) -> Iterator[Update]:
        """The updates until all answers have ended. Raises ConnectionError if the client goes before."""
        while not reply.is_done:
            if self._has_gone():
                raise ConnectionAbortedError
            try:
                yield outbox.get(timeout=0.5)
            except queue.Empty:
                continue

    def _has_gone(self) -> bool:
        self.connection.settimeout(0)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:  # it is there, and silent
            return False
        finally:
            self.connection.settimeout(self.timeout)

    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _body(self) -> bytes:
        if "Transfer-Encoding" in self.headers:
            raise refused(411, "a body in chunks is not allowed: send it whole, with its Content-Length")
        length = self.headers["Content-Length"] or "0"
        if not length.isdecimal():
            raise refused(400, "Content-Length: a number of bytes is allowed")
        if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            raise too_large()
        return self.rfile.read(int(length))

    def _refuse(self, refusal: RefusedError) -> None:
        self._send_json(refusal.status, refusal.body)

    def _send_json(self, status: int, value: Mapping[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self._head(status, kind)
        self.wfile.write(data)

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def _write(self, events: list[str]) -> None:
        self.wfile.write("".join(events).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing: clients decide what would be logged."""
