"""Where rows of logits come from: a model in a process of its own, which may die, or a file."""

from __future__ import annotations

import importlib
import multiprocessing
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.explain import read_rows
from engine_sampler.for_bridges import Session, to_numpy

MODULES = {"llama.cpp": "engine_sampler_llama_cpp", "transformers": "engine_sampler_transformers"}
"""The modules with a `Session` for a model that people bring."""
MOST_SECONDS = 300
"""The longest that a model may take for one answer."""
_TABLE = ("token_bytes", "eos_token_ids", "special_token_ids", "eot_token_id", "added_token_ids")


class EngineDied(RuntimeError):
    """The process of the model has ended, or does not answer."""


class ModelProcess:
    """A model in a process of its own: where it crashes, the page lives on.

    kind  "llama.cpp" or "transformers", with the path of a model, or "demo engine".

    Raises ValueError if the model cannot be opened.
    """

    is_fixed = False

    def __init__(self, kind: str = "demo engine", path: str | None = None) -> None:
        self.kind, self.path = kind, path
        self.title = f"{kind}: {path}" if path else kind
        self._lock = threading.RLock()
        self._process: Any = None
        self.restart()

    def restart(self) -> None:
        """Start the process, again if need be."""
        with self._lock:
            self.close()
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(
                target=_answer_all, args=(other, self.kind, self.path), daemon=True
            )
            self._process.start()
            other.close()
            table, self.vocab_size, self.eos_token_ids = self._answer()
            self.tokenizer = Tokenizer(**table, encode=lambda text: self._ask("plain", text))

    def encode(self, prompt: str) -> list[int]:
        """The prompt as token ids."""
        return list(self._ask("encode", prompt))

    def row(self, token_ids: list[int], index: int) -> np.ndarray:
        """float32 [vocab], the logits after `token_ids`."""
        return np.asarray(self._ask("row", token_ids))

    @property
    def pid(self) -> int:
        """The id of the process."""
        return int(self._process.pid)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()

    def _ask(self, what: str, argument: Any) -> Any:
        with self._lock:
            try:
                self._pipe.send((what, argument))
            except OSError:
                raise EngineDied(self._end()) from None
            return self._answer()

    def _answer(self) -> Any:
        try:
            if not self._pipe.poll(MOST_SECONDS):
                self.close()  # or a later question would get this answer
                raise EngineDied(f"the engine ({self.title}) has not answered for {MOST_SECONDS} seconds")
            fault, value = self._pipe.recv()
        except (EOFError, OSError):
            raise EngineDied(self._end()) from None
        if fault:
            raise ValueError(fault)
        return value

    def _end(self) -> str:
        self._process.join(1)
        return f"the engine ({self.title}) has died, with exit code {self._process.exitcode}"


def _answer_all(pipe: Connection, kind: str, path: str | None) -> None:
    """The process of a model: it answers until the pipe is closed."""
    cached: list[int] = []

    def row(token_ids: list[int]) -> np.ndarray:
        if token_ids[: len(cached)] != cached or len(token_ids) == len(cached):
            session.forget("page")
        cached[:] = token_ids
        return np.array(to_numpy(session.forward({"page": token_ids}))[0, : vocabulary.size], np.float32)

    try:
        session = _session(kind, path)
    except Exception as error:  # whatever a library raises for a model that it cannot load
        pipe.send((str(error), None))
        return
    vocabulary = session.scheduler.vocabulary
    tokenizer = vocabulary.need_tokenizer("prompt")
    table = {name: getattr(tokenizer, name) for name in _TABLE}
    pipe.send(("", (table, vocabulary.size, vocabulary.eos_token_ids)))
    answers = {"plain": tokenizer.encode, "encode": session.encode, "row": row}
    while True:
        try:
            what, argument = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(("", answers[what](argument)))
        except Exception as error:  # whatever the model raises is for the page to show
            pipe.send((f"{type(error).__name__}: {error}", None))


def _session(kind: str, path: str | None) -> Session:
    if path is None:
        from engine_sampler.demo import DemoSession, Engine

        return DemoSession(Engine.load())
    module = MODULES[kind]
    try:
        session: Session = importlib.import_module(module).Session(path)
    except ImportError as error:
        what = f"./plugins/{module.replace('_', '-')}" if error.name == module else error.name
        raise ValueError(f"{kind} needs {error.name}: pip install {what}") from None
    return session


class FileRows:
    """The rows of a file, in its order, as `read_rows` reads them."""

    is_fixed = True
    eos_token_ids: tuple[int, ...] = ()

    def __init__(self, path: str) -> None:
        self.rows, self.tokenizer = read_rows(path)
        self.title, self.vocab_size = Path(path).name, self.rows.shape[1]

    def encode(self, prompt: str) -> list[int]:
        """No ids: what was before the rows is not known."""
        return []

    def row(self, token_ids: list[int], index: int) -> np.ndarray | None:
        """float32 [vocab], the row of token `index`; None after the last one."""
        return np.array(self.rows[index], np.float32) if index < len(self.rows) else None

    def restart(self) -> None:
        """A file does not die."""

    close = restart


Source: TypeAlias = ModelProcess | FileRows
"""`is_fixed`: whether row i is the same whatever tokens were drawn before it."""
