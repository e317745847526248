"""Where rows of logits come from: a model in a process of its own, which may die, or a file."""

from __future__ import annotations

import importlib
import multiprocessing
import threading
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.for_bridges import Session, to_numpy

KINDS = {
    "demo engine": ("engine_sampler.demo", ""),
    "llama.cpp": ("engine_sampler_llama_cpp", "engine-sampler-llama-cpp"),
    "transformers": ("engine_sampler_transformers", "engine-sampler-transformers"),
}
"""Module with a `Session`, and the distribution that brings it, by kind of engine."""

MOST_SECONDS = 300
"""The longest that a model may take for one answer."""


class EngineDied(RuntimeError):
    """The process of the model has ended, or does not answer."""


class Source(Protocol):
    """Rows of logits after a context.

    tokenizer  None where the texts of the tokens are not known.
    is_fixed   whether row i is the same whatever tokens were drawn before it.
    """

    title: str
    vocab_size: int
    tokenizer: Tokenizer | None
    eos_token_ids: tuple[int, ...]
    is_fixed: bool

    def encode(self, prompt: str) -> list[int]:
        """The prompt as token ids."""

    def row(self, token_ids: list[int], index: int) -> np.ndarray | None:
        """float32 [vocab], a copy: the row of token `index` of the output, after `token_ids`; None: no more."""

    def restart(self) -> None:
        """Start again what has died."""

    def close(self) -> None:
        """End the process, if there is one."""


def open_source(gguf: str | None, transformers: str | None, rows: str | None) -> Source:
    """The source that the command line names. Raises ValueError or OSError for what cannot be opened."""
    if rows is not None:
        from .logprob_rows import FileRows

        return FileRows(rows)
    if gguf is not None:
        return Engine("llama.cpp", gguf)
    return Engine("demo engine" if transformers is None else "transformers", transformers)


class Engine:
    """A model in a process of its own: where it crashes, the page lives on."""

    is_fixed = False

    def __init__(self, kind: str, path: str | None) -> None:
        self.kind, self.path = kind, path
        self.title = kind if path is None else f"{kind}: {path}"
        self._lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        """Start the process, again if need be. Raises ValueError if it cannot open the model."""
        self.close()
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.kind, self.path), daemon=True)
        self._process.start()
        other.close()
        table, self.vocab_size, self.eos_token_ids = self._answer()
        self.tokenizer = Tokenizer(**table, encode=lambda text: self._ask("plain", text))

    def encode(self, prompt: str) -> list[int]:
        return list(self._ask("encode", prompt))

    def row(self, token_ids: list[int], index: int) -> np.ndarray:
        row: np.ndarray = self._ask("row", token_ids)
        return row

    @property
    def pid(self) -> int | None:
        """The id of the process."""
        return self._process.pid

    def close(self) -> None:
        if process := getattr(self, "_process", None):
            process.kill()
            process.join()
            self._pipe.close()

    def _ask(self, what: str, argument: Any) -> Any:
        with self._lock:
            try:
                self._pipe.send((what, argument))
            except OSError:
                raise EngineDied(self._epitaph()) from None
            return self._answer()

    def _answer(self) -> Any:
        try:
            if not self._pipe.poll(MOST_SECONDS):
                raise EngineDied(f"the engine ({self.title}) has not answered for {MOST_SECONDS} seconds")
            outcome, value = self._pipe.recv()
        except (EOFError, OSError):
            raise EngineDied(self._epitaph()) from None
        if outcome == "error":
            raise ValueError(value)
        return value

    def _epitaph(self) -> str:
        self._process.join(1)
        return f"the engine ({self.title}) has died, with exit code {self._process.exitcode}"


def _serve(pipe: Connection, kind: str, path: str | None) -> None:
    """The process of a model: it answers until the pipe is closed."""
    try:
        session = _session(kind, path)
        tokenizer = session.scheduler.vocabulary.tokenizer
        assert tokenizer is not None
        names = ("token_bytes", "eos_token_ids", "special_token_ids", "eot_token_id", "added_token_ids")
        table = {name: getattr(tokenizer, name) for name in names}
        pipe.send(
            ("ready", (table, session.scheduler.vocabulary.size, session.scheduler.vocabulary.eos_token_ids))
        )
        model = _Model(session)
        while True:
            what, argument = pipe.recv()
            try:
                answers = {"plain": tokenizer.encode, "encode": session.encode, "row": model.row}
                pipe.send(("answer", answers[what](argument)))
            except Exception as error:  # whatever the model raises is the page's to show
                pipe.send(("error", f"{type(error).__name__}: {error}"))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return
    except Exception as error:  # a model that cannot be loaded
        pipe.send(("error", str(error)))


def _session(kind: str, path: str | None) -> Session:
    module, distribution = KINDS[kind]
    if path is None:
        from engine_sampler.demo import DemoSession
        from engine_sampler.demo import Engine as DemoEngine

        return DemoSession(DemoEngine.load())
    try:
        session: Session = importlib.import_module(module).Session(path)
    except ImportError as error:
        hint = (
            f"pip install ./plugins/{distribution}" if error.name == module else f"pip install {error.name}"
        )
        raise ValueError(f"{kind} needs {error.name}: {hint}") from None
    return session


class _Model:
    """One context after another in a session's cache."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.cached: list[int] = []

    def row(self, token_ids: list[int]) -> np.ndarray:
        if token_ids[: len(self.cached)] != self.cached or len(token_ids) == len(self.cached):
            self.session.forget("page")
        self.cached = list(token_ids)
        rows = to_numpy(self.session.forward({"page": self.cached}))
        return np.array(rows[0, : self.session.scheduler.vocabulary.size], np.float32)
