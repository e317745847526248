"""Another process: with another PYTHONHASHSEED, other flags, another folder, locale and time zone.

It is started when it is first needed, serves one call at a time, and ends with this process.
"""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any

import numpy as np

from ..cases import Case

_LENGTH = struct.Struct("<q")


class NotThere(Exception):
    """The task cannot be carried to the other process, or that cannot be started."""


class _Elsewhere:
    """The other process, from this side."""

    description = "in another process, with another PYTHONHASHSEED, without assertions"

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def call(self, task: Any) -> Any:
        """What `task()` gives there. Raises `NotThere` if it cannot be pickled, or read there, and
        AssertionError if it fails there."""
        try:
            data = pickle.dumps(([os.path.abspath(folder) for folder in sys.path], task))
        except Exception as error:
            raise NotThere(str(error)) from None
        with self._lock:
            try:
                process = self._started()
                assert process.stdin is not None, "stdin is a pipe"
                assert process.stdout is not None, "stdout is a pipe"
                _send(process.stdin, data)
                outcome, value = pickle.loads(_receive(process.stdout))
            except (OSError, EOFError) as error:
                self.end()
                raise NotThere(str(error)) from None
        if outcome == "unread":
            raise NotThere(value)
        if outcome == "failed":
            raise AssertionError(f"fails {self.description}: {value}")
        return value

    def end(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid():  # which a fork must not share
            self._owner = os.getpid()
            seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
            environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C", "TZ": "Asia/Kathmandu"}
            self._process = subprocess.Popen(
                [sys.executable, "-O", "-W", "ignore", "-c", _PROGRAM, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=tempfile.gettempdir(),
                env=environment,
            )
            atexit.register(self.end)
        return self._process


ELSEWHERE = _Elsewhere()


class OutcomeElsewhere:
    """A task: the outcome for `case` by the kit's sampler or selector, after some more tokens."""

    def __init__(self, kit: Any, case: Case) -> None:
        kits = [one for one in type(kit).__mro__ if one.__module__.startswith("engine_sampler.testing.")]
        self._kit, self._part, self._case = kits[0], kit.part, case
        self._eos_token_ids, self._tokenizer = tuple(kit.eos_token_ids), kit.tokenizer(case.vocab_size)

    def __call__(self) -> np.ndarray:
        kit = self._kit().with_part(self._part)
        kit.eos_token_ids = self._eos_token_ids
        kit.tokenizer = lambda vocab_size: self._tokenizer
        outcome: np.ndarray = kit.continued(self._case).outcome()
        return outcome


_PROGRAM = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import serve; serve()"


def serve() -> None:
    """Call what comes on standard input, until that ends, and write the results to standard output."""
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no result
    while True:
        try:
            data = _receive(tasks)
        except EOFError:
            return
        _send(results, pickle.dumps(_answered(data)))


def _answered(data: bytes) -> tuple[str, Any]:
    from .surroundings import leaving_them_alone  # which imports this module

    try:
        sys.path[:], task = pickle.loads(data)
    except Exception as error:
        return "unread", repr(error)
    try:
        with leaving_them_alone("it"):  # where nothing that it may set once has been set before
            return "given", task()
    except Exception as error:
        return "failed", str(error) if isinstance(error, AssertionError) else repr(error)


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError("the other process has ended")
    return data
