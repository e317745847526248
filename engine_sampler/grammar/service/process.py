"""A process that reads grammars, as the engine's process sees it: started, asked, and killed in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import GrammarError, GrammarLimitError
from . import wire

PATIENCE = 1.0
"""The seconds that a grammar may take while others wait."""

_CHECK_SECONDS = 0.1
"""How often it is checked whether others wait."""

_START = """
import json, os, sys
answers = os.dup(1)
os.dup2(2, 1)
sys.path[:] = json.loads(sys.argv[1])
from engine_sampler.grammar.service.worker import main
main(answers, int(sys.argv[2]), float(sys.argv[3]))
"""
"""The program of a worker; what modules and grammars print goes to standard error, not among the answers."""


class GaveWay(Exception):
    """A grammar has been given up because it takes long while others wait."""


def closed() -> GrammarError:
    """The error of grammars that are not compiled when the compiler is closed."""
    return GrammarError("the grammar compiler has been closed")


class _Question:
    """A message that is being answered.

    since   when the process, which may have to be started first, has got it
    """

    def __init__(self, gives_way: Callable[[], bool]) -> None:
        self.gives_way = gives_way
        self.is_answered = threading.Event()
        self.since: float | None = None

    def is_slow(self) -> bool:
        return self.since is not None and time.monotonic() - self.since > PATIENCE


class Worker:
    """A process that answers one message at a time; a new one takes its place when it has ended.

    timeout  seconds that an answer may take, the start of the process included.

    On Linux, the process ends with the thread that starts it.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._is_ready = False
        self._killed_for: Exception | None = None

    @property
    def process_id(self) -> int | None:
        """The id of the process; None before it has been started."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> subprocess.Popen[bytes]:
        """The process, newly started if there is none. Raises GrammarError if it cannot be started."""
        with self._lock:
            if self._closed:
                raise closed()
            if self._process is None or self._process.poll() is not None:
                self._discard()
                self._process, self._is_ready = _started(self._timeout), False
            return self._process

    def ask(self, message: Any, gives_way: Callable[[], bool] = lambda: False) -> Any:
        """The process's answer to `message`.

        gives_way  whether others wait: an answer that takes more than `PATIENCE` seconds is given up then

        Raises GrammarLimitError if it takes too long, GaveWay if it gives way, and GrammarError if the
        process ends; the next message goes to a new one. Raises what `wire.encode` raises.
        """
        parts = wire.encode(message)
        process = self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        self._killed_for, question = None, _Question(gives_way)
        arguments = process, question
        threading.Thread(target=self._watch, args=arguments, daemon=True, name="grammar compiler").start()
        try:
            if not self._is_ready:
                wire.receive(process.stdout.fileno())
                self._is_ready = True
            question.since = time.monotonic()
            wire.send(process.stdin.fileno(), parts)
            return wire.receive(process.stdout.fileno())
        except Exception as error:  # whatever comes out of a broken pipe
            process.kill()
            raise self._loss(process.wait(), error) from error
        finally:
            with self._lock:
                question.is_answered.set()

    def close(self) -> None:
        """End the process; an `ask` that waits for it raises."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def release(self) -> None:
        """Close the pipes of an ended process, once nobody reads from them any more."""
        with self._lock:
            self._discard()

    def _watch(self, process: subprocess.Popen[bytes], question: _Question) -> None:
        """Kill the process if its answer takes too long."""
        end = time.monotonic() + self._timeout
        limit = f"{self._timeout:g} seconds, the limit (GrammarCompiler.timeout)"
        why: Exception = GrammarLimitError(f"reading the grammar takes more than {limit}")
        while (left := end - time.monotonic()) > 0:
            if question.is_answered.wait(min(left, _CHECK_SECONDS)):
                return
            if question.is_slow() and question.gives_way():
                why = GaveWay()
                break
        with self._lock:
            if not question.is_answered.is_set():
                self._killed_for = why
                process.kill()

    def _loss(self, code: int, error: Exception) -> Exception:
        if self._closed:
            return closed()
        if self._killed_for is not None:
            return self._killed_for
        if isinstance(error, (EOFError, OSError)):
            return GrammarError(f"the process that compiled the grammar ended with exit code {code}")
        return GrammarError(f"the process that compiled the grammar gave no grammar: {error}")

    def _discard(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


def _started(timeout: float) -> subprocess.Popen[bytes]:
    """A new worker. It finds modules where this process does, but does not import this process's `__main__`,
    and it is not in the terminal's foreground, so that Ctrl-C reaches the engine only."""
    from multiprocessing import spawn  # only here: it loads a dozen modules

    paths = [os.path.abspath(path) for path in sys.path if isinstance(path, str)]
    executable = os.fsdecode(spawn.get_executable() or "python3")
    try:
        return subprocess.Popen(
            [executable, "-I", "-c", _START, json.dumps(paths), str(os.getpid()), str(timeout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise GrammarError(f"the process that compiles grammars could not be started: {error}") from error
